#!/usr/bin/env python3
"""test_pipe.py gdb|lldb PROGRAM: commands that come to examples/start.sh through a pipe.

start.sh runs in a copy of the tree whose walk is PROGRAM, with a cmake that does nothing. Must turn red: a command that does
not wait for the one before it, or that becomes the program's input. Exit: 0, 1, 77 as run_session.py.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from run_session import SOURCE, environment, probe, skip

COMMANDS = 'step\nglass why\nstep\nglass stats scores[0, 0, 0]\nquit\n'
CMAKE = '#!/bin/sh\necho "cmake version 3.25.1"\n'


def main():
    kind, program = sys.argv[1:3]
    if not shutil.which(kind):
        skip('%s is not installed' % kind)
    with tempfile.TemporaryDirectory() as tmp:
        for folder in ('examples', '.ci', 'bin', 'build/debug/examples'):
            os.makedirs(os.path.join(tmp, folder))
        shutil.copy(os.path.join(SOURCE, 'examples', 'start.sh'), os.path.join(tmp, 'examples'))
        os.symlink(os.path.join(SOURCE, 'include'), os.path.join(tmp, 'include'))
        os.symlink(program, os.path.join(tmp, 'build/debug/examples/walk'))
        for name, text in (('bin/cmake', CMAKE), ('.ci/install_packages.sh', '#!/bin/sh\n'), ('build/debug/Makefile', ''),
                           ('build/debug/CMakeCache.txt', '')):
            with open(os.path.join(tmp, name), 'w', encoding='utf-8') as file:
                file.write(text)
            os.chmod(os.path.join(tmp, name), 0o755)
        values = environment({})
        values['PATH'] = os.path.join(tmp, 'bin') + ':' + values['PATH']
        values['HOME'] = tmp
        done = subprocess.run([os.path.join(tmp, 'examples/start.sh'), kind], input=COMMANDS.encode(), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=values, cwd=tmp, timeout=200, start_new_session=True, check=False)
        text = done.stdout.decode('utf-8', 'replace')
        wrong = [what for what, pattern in (
            ('no stop at scores', r'scores, layer 0: f\w+\[batch=1, head=4'),
            ('glass why after a step does not answer', r'made by +add_mask'),
            ('glass stats after a second step does not answer', r'scores\[0, 0, 0\] f\w+\[key=\d\][^$]*mean')) if not re.search(pattern, text)]
        wrong += [word for word in ('not running', 'invalid thread', 'exited with status', 'exited normally') if word in text]
        if wrong:
            probe(kind, program, tmp)
            print('FAILED in %s: %s\n%s' % (kind, '; '.join(wrong), text))
            return 1
    print('PASSED in %s' % kind)
    return 0


if __name__ == '__main__':
    sys.exit(main())
