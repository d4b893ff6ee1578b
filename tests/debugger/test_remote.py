#!/usr/bin/env python3
"""test_remote.py gdb|lldb PROGRAM: the recipe of docs/remote_and_ide.md for a program on another machine. gdbserver or lldb-server runs
PROGRAM here; it was compiled as if the sources lay in /build/glassbox, and the debugger is told where they are.

Faults that must turn it red: a command of glassbox that reads the program otherwise than through the debugger; a source
line that is not found; `glass back` doing something on a program that it cannot start again.

Exit: 0 passed, 1 failed, 77 skipped, with the reason."""
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

from run_session import GDB_START, LLDB_START, SCRIPTS, SOURCE, environment, skip

COMMANDS = ['glass next scores', 'glass show scores[0, 0]', 'glass back', 'glass next masked_scores', 'glass why']
WANTED = [
    r'^glassbox::Attention<float>::forward at attention\.hpp:\d+$',
    r'^\d+\tstage\("scores", layer, scores\);$',
    r'^scores, layer 0: f32\[batch=1, head=4, query=5, key=5\] min=-2\.351 max=2\.417 mean=0\.06908 nan=0 inf=0$',
    r'^  \[query=0\]     -1\.767      1\.197     0\.5125    -0\.6584     -2\.351',
    r'^(error: )?glass: cannot go back: a remote program cannot be started again from here$',
    r'^\d+\tstage\("masked_scores", layer, masked_scores\);',
    r'^  why           What must not be looked at becomes -infinity',
]


def with_gdb(program, tmp):
    script = os.path.join(tmp, 'commands.gdb')
    with open(script, 'w', encoding='utf-8') as file:
        for text in GDB_START + ['source %s/glassbox_gdb.py' % SCRIPTS, 'set sysroot /',
                                 'set substitute-path /build/glassbox %s' % SOURCE,
                                 'target remote | gdbserver --once - %s' % program]:
            file.write(text + '\n')
        for text in COMMANDS:  # one that fails must not end the script
            file.write("python\ntry:\n    gdb.execute('%s')\nexcept gdb.error as error:\n    print(error)\nend\n" % text)
        file.write('kill\n')
    return ['gdb', '-nx', '-batch', '-x', script, program]


def with_lldb(program, tmp):
    """lldb wants its own server: gdb's tells it another place than it stopped at."""
    with socket.socket() as free:
        free.bind(('localhost', 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(['lldb-server', 'gdbserver', 'localhost:%d' % port, '--', program], cwd=tmp,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment({}))
    connect = 'script import time; [lldb.debugger.HandleCommand("gdb-remote localhost:%d") or time.sleep(0.2) ' \
              'for _ in range(50) if not lldb.target.GetProcess().IsValid()]' % port
    script = os.path.join(tmp, 'commands.lldb')
    with open(script, 'w', encoding='utf-8') as file:
        file.write('\n'.join([connect] + COMMANDS + ['process kill']) + '\n')
    arguments = ['lldb', '-x', '-b']
    for text in LLDB_START + ['command script import %s/glassbox_lldb.py' % SCRIPTS,
                              'settings set target.source-map /build/glassbox %s' % SOURCE]:
        arguments += ['-o', text]
    return arguments + ['-s', script, program], server


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ('gdb', 'lldb'):
        sys.exit('usage: test_remote.py gdb|lldb PROGRAM')
    kind, program = sys.argv[1], os.path.abspath(sys.argv[2])
    for needed in (kind, 'gdbserver' if kind == 'gdb' else 'lldb-server'):
        if shutil.which(needed) is None:
            skip('%s is not here' % needed)
    server = None
    with tempfile.TemporaryDirectory() as tmp:
        if kind == 'gdb':
            arguments = with_gdb(program, tmp)
        else:
            arguments, server = with_lldb(program, tmp)
        done = subprocess.run(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=environment({}), timeout=200, check=False)
    if server is not None:
        server.kill()
    text = done.stdout.decode('utf-8', 'replace')
    if re.search(r'ptrace|Cannot exec|Operation not permitted', text):
        skip('gdbserver cannot start a program here:\n' + text[-800:])
    lines = [line.rstrip() for line in text.split('\n')]
    for wanted in WANTED:
        if not any(re.search(wanted, line) for line in lines):
            print('FAILED: no line matches %s in\n%s' % (wanted, text))
            sys.exit(1)
    print('PASSED')


main()
