#!/usr/bin/env python3
"""test_mpi.py PROGRAM: the recipe of docs/remote_and_ide.md for many processes, taken from that page and run: rank 0 in gdb,
the others as they are. Must turn red: a recipe that puts no process or every process into gdb.

Exit: 0 passed, 1 failed, 77 skipped, with the reason."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from run_session import GDB_START, SCRIPTS, SOURCE, environment, skip


def script_on_the_page():
    with open(os.path.join(SOURCE, 'docs', 'remote_and_ide.md'), encoding='utf-8') as file:
        lines = file.read().split('\n')
    start = lines.index('    #!/bin/sh')
    return '\n'.join(line[4:] for line in lines[start:lines.index('', start)]) + '\n'


def main():
    if len(sys.argv) != 2:
        sys.exit('usage: test_mpi.py PROGRAM')
    for needed in ('mpirun', 'gdb'):
        if shutil.which(needed) is None:
            skip('%s is not here' % needed)
    with tempfile.TemporaryDirectory() as tmp:
        wrapper = os.path.join(tmp, 'rank0.sh')
        with open(wrapper, 'w', encoding='utf-8') as file:
            file.write(script_on_the_page())
        os.chmod(wrapper, 0o755)
        typed = GDB_START + ['source %s/glassbox_gdb.py' % SCRIPTS, 'glass next scores --layer 1', 'kill', 'quit']
        words = ['mpirun', '--oversubscribe', '-np', '3', wrapper, os.path.abspath(sys.argv[1])]
        if os.getuid() == 0:
            words.insert(1, '--allow-run-as-root')
        done = subprocess.run(words, input='\n'.join(typed).encode() + b'\n', stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=environment({'HOME': tmp}), timeout=200, check=False)
    text = done.stdout.decode('utf-8', 'replace')
    if re.search(r'ptrace: Operation not permitted', text):
        skip('gdb cannot start a program here')
    stops = len(re.findall(r'^scores, layer 1: f32\[batch=1, head=4, query=5, key=5\] min=-2\.138', text, re.M))
    if stops != 1:
        print('FAILED: %d stops instead of one:\n%s' % (stops, text))
        sys.exit(1)
    print('PASSED')


main()
