#!/usr/bin/env python3
"""run_session.py gdb|lldb SESSION PROGRAM [--update]: plays a session in a debugger and compares every line it prints.

A session is a text file:
    # a comment
    $ glass next scores           a command of both debuggers, then the lines it prints
    $gdb p scores                 a command of one of them
    $ stop values.cpp tensors     break at the line of that file marked "STOP tensors"
    ...                           any lines
    ~ regular expression          one line that matches
    gdb| text                     a line that only one debugger prints
Directives: "#! core: COMMAND; COMMAND" runs the commands first in gdb, saves a core file and plays the session on that.
"#! environment: NAME=VALUE" with {here} for the session's folder, {tmp} for a folder of its own, also in commands.

A page of Markdown is a session, too: what stands in its ```console blocks after "(gdb) " is typed, the lines below must be
printed; line numbers of headers may differ. A first line with "numbers agree within X" allows that relative difference. lldb plays of it the commands `glass ...`, steps, `kill` and `set args`.

Exit: 0 passed, 1 failed, 77 skipped, with the reason: no such debugger, or it may start no program here (ptrace). With
GLASSBOX_REQUIRE_DEBUGGER=1 a skip is a failure. --update writes the lines printed into the session or page (look at them!).
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(HERE, '..', '..', 'include', 'glassbox', 'debugger')
SOURCE = os.path.normpath(os.path.join(HERE, '..', '..'))
NOISE = re.compile(r'^(\[Thread debugging|Using host libthread_db|Process \d+ (launched|exited|resuming)|\(lldb\) .*'
                   r'|\[Inferior .* exited|\[New |\[Thread |\[Switching|warning: .*core|Executing commands in .*|)$'
                   r'|^(\[Thread debugging|Using host libthread_db|Process \d+ (launched|exited|resuming)|\[Inferior '
                   r'|\[New |\[Thread |\[Switching|\[Current thread|Program terminated|Core was generated)')
GDB_START = ['set width 0', 'set confirm off', 'set pagination off', 'set style enabled off', 'set debuginfod enabled off',
             'set disable-randomization off', 'set startup-with-shell off']
LLDB_START = ['settings set target.disable-aslr false', 'settings set use-color false',
              'settings set stop-line-count-before 0', 'settings set stop-line-count-after 0',
              'settings set interpreter.stop-command-source-on-error false']


def skip(reason):
    required = os.environ.get('GLASSBOX_REQUIRE_DEBUGGER') == '1'
    print('%s: %s' % ('FAILED, a debugger is required' if required else 'SKIPPED', reason))
    sys.exit(1 if required else 77)


def environment(more):
    values = dict(os.environ, LC_ALL='C.UTF-8', TERM='dumb', DEBUGINFOD_URLS='', PYTHONDONTWRITEBYTECODE='1')
    for name in ('GLASSBOX_BREAK', 'GLASSBOX_EXPECT', 'PYTHONHOME', 'PYTHONPATH'):
        values.pop(name, None)
    # A debugger's Python takes its library from the first python3 on the path: one of a conda would break it.
    values['PATH'] = '/usr/bin:/bin:' + values.get('PATH', '')
    for folder in ('/usr/lib/llvm-14/lib/python3.11/dist-packages',):  # Debian 12's lldb looks elsewhere for it
        if os.path.exists(folder):
            values['PYTHONPATH'] = folder
    values.update(more)
    return values


def marked_line(file, mark):
    with open(os.path.join(HERE, file), encoding='utf-8') as source:
        for number, line in enumerate(source, 1):
            if re.search(r'// STOP %s\b' % re.escape(mark), line):
                return number
    sys.exit('%s has no line marked "// STOP %s"' % (file, mark))


class Session:
    def __init__(self, path, kind, tmp):
        self.commands, self.core, self.environment = [], None, {}
        self.path = path
        with open(path, encoding='utf-8') as file:
            self.text = file.read().split('\n')
        allowed = re.search(r'numbers agree within ([0-9.]+)', self.text[0])
        self.tolerance = float(allowed.group(1)) if allowed else 0
        if path.endswith('.md'):
            self.text = from_page(self.text)
        for number, line in enumerate(self.text):
            line = line.replace('{here}', HERE).replace('{source}', SOURCE)
            command = re.match(r'^\$(gdb|lldb)? (.*)$', line)
            if line.startswith('#! core:'):
                self.core = [one.strip() for one in line[8:].split(';')]
            elif line.startswith('#! environment:'):
                name, _, value = line[15:].strip().partition('=')
                self.environment[name] = value
            elif command:
                mine = command.group(1) in (None, kind)
                self.commands.append({'mine': mine, 'text': translated(command.group(2), kind).replace('{tmp}', tmp), 'expected': [],
                                      'line': number})
            elif self.commands and line and not line.startswith('#'):
                self.commands[-1]['expected'].append(line)
        self.commands = [command for command in self.commands if command['mine']]
        for command in self.commands:
            if path.endswith('.md') and kind == 'lldb' and not command['text'].startswith('glass'):
                command['expected'] = ['...']  # lldb tells stops in its own words


def from_page(lines):
    """The lines of the ```console blocks as those of a session, others empty, so that line numbers stay."""
    session, inside = [], False
    for line in lines:
        typed = re.match(r'^\(gdb\) (.*)$', line)
        if line.startswith('```'):
            inside = line == '```console'
            line = ''
        elif not inside or line.startswith('$ '):
            line = ''
        elif typed:
            both = typed.group(1).split()[0] in ('glass', 'step', 'next', 'finish', 'up', 'down', 'continue', 'kill') \
                or typed.group(1).startswith('set args ')
            line = ('$ %s' if both else '$gdb %s') % typed.group(1)
        else:
            line = stable(line)
        session.append(line)
    return session


def translated(text, kind):
    words = text.split()
    if kind == 'lldb' and text.startswith('set args '):
        return 'settings set -- target.run-args ' + text[len('set args '):]
    if words[0] == 'stop':
        line = marked_line(words[1], ' '.join(words[2:]))
        return ('break %s:%d' if kind == 'gdb' else 'breakpoint set -f %s -l %d') % (words[1], line)
    return text


def command_line(kind, commands, program, core, tmp):
    """The debugger's arguments: each command follows a line that tells its number."""
    if kind == 'gdb':
        arguments = ['gdb', '-nx', '-batch', '-iex', 'set auto-load off']
        for text in GDB_START + ['source %s/glassbox_gdb.py' % SCRIPTS]:
            arguments += ['-iex' if text.startswith('set debuginfod') else '-ex', text]
        for number, text in enumerate(commands):
            arguments += ['-ex', 'echo @@%d@@\\n' % number, '-ex', text]
        arguments += ['-ex', 'echo @@end@@\\n', program]
        return arguments + ([core] if core else [])
    script = os.path.join(tmp, 'commands.lldb')
    with open(script, 'w', encoding='utf-8') as file:
        for number, text in enumerate(commands):
            file.write('script print("@@%d@@", flush=True)\n%s\n' % (number, text))
        file.write('script print("@@end@@", flush=True)\n')
    arguments = ['lldb', '-x', '-b']
    for text in LLDB_START + ['command script import %s/glassbox_lldb.py' % SCRIPTS]:
        arguments += ['-o', text]
    return arguments + ['-s', script, program] + (['-c', core] if core else [])


def run(arguments, values, folder):
    done = subprocess.run(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=values, cwd=folder, timeout=280, start_new_session=True, check=False)
    return done.stdout.decode('utf-8', 'replace')


def outputs(text, count):
    """The lines between the numbers."""
    parts = re.split(r'^@@(\d+|end)@@$', text, flags=re.M)
    found = [[] for _ in range(count)]
    for name, part in zip(parts[1::2], parts[2::2]):
        if name != 'end':
            lines = [re.sub(r'^error: (?=glass: )', '', line.rstrip()) for line in part.split('\n')]
            found[int(name)] = [line for line in lines if line and not NOISE.match(line)]
    return found, '@@end@@' in text


NUMBER = re.compile(r'(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)')


def matches(expected, line, tolerance):
    if expected.startswith('~ '):
        return re.search(expected[2:], line)
    return expected == line or (tolerance > 0 and agree(expected, line, tolerance))


def agree(expected, line, tolerance):
    """Whether two lines differ in the last digits of numbers with a point only, and so in spaces."""
    ours, theirs = NUMBER.split(expected), NUMBER.split(line)
    if len(ours) != len(theirs):
        return False
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if i % 2 == 0 and a.split() != b.split():
            return False
        if i % 2 == 1 and a != b:
            if '.' not in a + b or abs(float(a) - float(b)) > tolerance * max(abs(float(a)), abs(float(b))):
                return False
    return True


def mismatch(expected, printed, tolerance=0):
    """None, or what is wrong."""
    def fits(i, j):
        while i < len(expected):
            if expected[i].strip() == '...':
                return any(fits(i + 1, k) for k in range(j, len(printed) + 1))
            if j >= len(printed) or not matches(expected[i], printed[j], tolerance):
                return False
            i, j = i + 1, j + 1
        return j == len(printed)
    if fits(0, 0):
        return None
    for i in range(max(len(expected), len(printed))):
        want = expected[i] if i < len(expected) else '(nothing more)'
        got = printed[i] if i < len(printed) else '(nothing more)'
        if want.strip() == '...' or not (i < len(expected) and i < len(printed) and matches(want, got, tolerance)):
            return 'expected: %s\nprinted:  %s' % (want, got)
    return 'the lines after "..." do not fit'


def probe(kind, program, tmp):
    commands = ['break main', 'run', 'bt 1'] if kind == 'gdb' else ['breakpoint set -n main', 'run', 'bt 1']
    text = run(command_line(kind, commands, program, None, tmp), environment({}), tmp)
    if not re.search(r'#0.*main', text):
        skip('%s cannot start a program here:\n%s' % (kind, text[-800:]))


def make_core(commands, program, tmp):
    path = os.path.join(tmp, 'core')
    text = run(command_line('gdb', commands + ['generate-core-file %s' % path], program, None, tmp), environment({}), tmp)
    if not os.path.exists(path):
        probe('gdb', program, tmp)
        print('FAILED to make a core file:\n' + text)
        sys.exit(1)
    return path


def stable(line):
    """What is written into a session: lines of glassbox's headers without their numbers."""
    place = re.match(r'^(\S+(?: \(\.\.\.\))?) at (\w+\.hpp):\d+$', line)
    if place:
        return '~ ^%s at %s:\\d+$' % (re.escape(place.group(1)).replace('\\ ', ' '), re.escape(place.group(2)))
    source = re.match(r'^\d+\t(.*?)( +//.*)?$', line)
    agreement = re.match(r'^(.* agree within .*: largest difference )\S+( \(.*)$', line)
    if agreement:  # roundings differ from compiler to compiler
        return '~ ^%s\\S+%s$' % tuple(re.escape(part).replace('\\ ', ' ') for part in agreement.groups())
    unfinished = re.match(r'^(.*<not computed yet: line )\d+( makes it>)$', line)
    if unfinished:
        return '~ ^%s\\d+%s$' % tuple(re.escape(part).replace('\\ ', ' ') for part in unfinished.groups())
    if source:
        return '~ ^\\d+\\t%s' % re.escape(source.group(1)).replace('\\ ', ' ').replace('\\"', '"')
    return line


def expected_places(session, command, other):
    """Where in the file the lines stand that a command must print."""
    places = []
    for number in range(command['line'] + 1, len(session.text)):
        line = session.text[number]
        if re.match(r'^\$(gdb|lldb)? ', line):
            break
        if line and not line.startswith(('#', other)):
            places.append(number)
    return places


def update(session, kind, printed):
    """Writes into the file what was printed. Lines are counted from the command to the first "..." and, after the last one,
    from the end; those between two "..." are left alone."""
    with open(session.path, encoding='utf-8') as file:
        lines = file.read().split('\n')
    page, other = session.path.endswith('.md'), 'lldb|' if kind == 'gdb' else 'gdb|'
    new_lines = []  # (first place, end, lines)
    for command, found in zip(session.commands, printed):
        places = expected_places(session, command, other)
        expected = [session.text[place] for place in places]
        if kind == 'lldb' and command['expected'] == ['...']:
            continue
        if '...' not in expected and len(expected) != len(found) and not page:
            begin = command['line'] + 1
            new_lines.append((begin, places[-1] + 1 if places else begin, [stable(line) for line in found]))
            continue
        head = expected.index('...') if '...' in expected else len(expected)
        tail = expected[::-1].index('...') if '...' in expected else 0
        pairs = list(zip(places[:head], found)) + (list(zip(places[-tail:], found[-tail:])) if tail else [])
        for place, line in pairs:
            prefix = re.match(r'^((gdb|lldb)\| ?)?', session.text[place]).group(0)
            if not matches(session.text[place][len(prefix):], line, session.tolerance):
                new_lines.append((place, place + 1, [prefix + (line if page else stable(line))]))
    for begin, end, replacement in sorted(new_lines, reverse=True):
        lines[begin:end] = replacement
    with open(session.path, 'w', encoding='utf-8') as file:
        file.write('\n'.join(lines))


def main():
    kind, path, program = sys.argv[1:4]
    if not shutil.which(kind):
        skip('%s is not installed' % kind)
    with tempfile.TemporaryDirectory() as tmp:
        session = Session(path, kind, tmp)
        core = make_core(session.core, program, tmp) if session.core else None
        commands = [command['text'] for command in session.commands]
        values = environment({name: value for name, value in session.environment.items()})
        folder = SOURCE if path.endswith('.md') else tmp
        text = run(command_line(kind, commands, program, core, tmp), values, folder).replace(tmp, '{tmp}')
        printed, complete = outputs(text, len(commands))
        if '--update' in sys.argv:
            update(session, kind, printed)
            return 0
        other = 'lldb|' if kind == 'gdb' else 'gdb|'
        failures = [] if complete else ['the session broke off']
        for word in ('Traceback', 'fault in the command', 'Python Exception'):
            if word in text:
                failures.append('"%s" was printed' % word)
        for command, found in zip(session.commands, printed):
            expected = [re.sub(r'^(gdb|lldb)\| ?', '', line) for line in command['expected']
                        if not line.startswith(other)]
            wrong = mismatch(expected, found, session.tolerance)
            if wrong:
                failures.append('%s:%d: %s\n%s' % (os.path.basename(path), command['line'] + 1, command['text'], wrong))
        if failures:
            probe(kind, program, tmp)
            print('FAILED in %s\n%s\n---- everything printed\n%s' % (kind, '\n'.join(failures), text))
            return 1
        print('PASSED in %s: %d commands' % (kind, len(commands)))
        return 0


if __name__ == '__main__':
    sys.exit(main())
