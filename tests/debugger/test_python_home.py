#!/usr/bin/env python3
"""test_python_home.py PROGRAM: glassbox in an lldb that finds its Python's library, but not the module lldb.

So it is where another Python of the same version comes first in PATH. Must turn red: the module not looked for where it
lies, what lldb then lacks to show std::vector. Exit: 0, 1, 77 as run_session.py.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

from run_session import LLDB_START, SCRIPTS, environment, marked_line, probe, skip


def main():
    program = sys.argv[1]
    found = glob.glob('/usr/lib/llvm-*/lib/python3.*/dist-packages/lldb/__init__.py')
    if not shutil.which('lldb') or not found:
        skip('lldb is not installed, or not as Debian does it')
    version = found[0].split('/')[5]
    if not os.path.isdir('/usr/lib/' + version):
        skip('no library of ' + version)
    with tempfile.TemporaryDirectory() as tmp:
        os.mkdir(os.path.join(tmp, 'lib'))
        os.symlink('/usr/lib/' + version, os.path.join(tmp, 'lib', version))
        values = environment({'PYTHONHOME': tmp})
        values.pop('PYTHONPATH', None)
        commands = LLDB_START + ['command script import %s/glassbox_lldb.py' % SCRIPTS,
                                 'breakpoint set -f containers.cpp -l %d' % marked_line('containers.cpp', 'containers'),
                                 'run', 'v ids', 'glass stats tensors[0]']
        arguments = ['lldb', '-x', '-b']
        for text in commands:
            arguments += ['-o', text]
        done = subprocess.run(arguments + [program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=values, cwd=tmp, timeout=200, start_new_session=True, check=False)
        text = done.stdout.decode('utf-8', 'replace')
        if 'ids = size=3 {' not in text or '[2] = 9' not in text or 'tensors[0] f32[row=1, column=2]' not in text:
            probe('lldb', program, tmp)
            print('FAILED\n' + text)
            return 1
    print('PASSED')
    return 0


if __name__ == '__main__':
    sys.exit(main())
