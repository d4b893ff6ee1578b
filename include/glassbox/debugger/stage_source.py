"""What glassbox's headers say of the stages: the table of their meanings, and the lines they are passed on.

Both are read from the text of the headers, not from the program: the table is constexpr, so that a program that
does not use it does not hold it, and a core file or a remote program needs no memory read for it. The headers
are those the program was compiled from, where they are on this machine, else those beside this file.
"""
import os
import re
from collections import namedtuple

HEADERS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# One statement `stage("scores", layer, scores);`
StageLine = namedtuple('StageLine', 'stage layer tensor file line folder')
StageRow = namedtuple('StageRow', 'name group axes source module formula why transformers llama_cpp when')

# The row that stands for the gradient of every stage
GRADIENTS = 'd_NAME'

STATEMENT = re.compile(r'^\s*(?:glassbox::)?stage\(\s*"(\w+)",\s*([\w.>-]+),\s*([\w.>()-]+)\s*\);')


def lines_of_file(path):
    try:
        with open(path, encoding='utf-8', errors='replace') as file:
            return file.read().split('\n')
    except OSError:
        return []


def stage_lines_of(path, folder):
    found = []
    for number, text in enumerate(lines_of_file(path), 1):
        match = STATEMENT.match(text)
        if match:
            found.append(StageLine(match.group(1), match.group(2), match.group(3), path, number, folder))
    return found


def is_header(path, line, headers):
    """Whether `path`, as the program names it, is the header of a stage line: it lies in the folder of the program's
    headers, or, where that is not known, in a folder glassbox/."""
    inside = os.path.relpath(line.file, line.folder)
    if headers:
        header = os.path.join(headers, inside)
        return os.path.normpath(path) == os.path.normpath(header) or os.path.realpath(path) == os.path.realpath(header)
    return os.path.normpath(path).endswith(os.path.join(os.sep + 'glassbox', inside))


def statement_end(path, line):
    """The last line of the statement that begins on `line`: where a variable declared there is complete."""
    lines = lines_of_file(path)
    for number in range(line, min(line + 10, len(lines) + 1)):
        code = re.sub(r'//.*', '', lines[number - 1]).rstrip()
        if code.endswith((';', '{')):
            return number
    return line


def function_end(path, line):
    """The last line of the function that begins on `line`, by counting braces."""
    depth, lines = 0, lines_of_file(path)
    for number in range(line, len(lines) + 1):
        code = re.sub(r'"(?:[^"\\]|\\.)*"|//.*', '', lines[number - 1])
        depth += code.count('{') - code.count('}')
        if depth == 0 and '}' in code:
            return number
    return len(lines)


class StageSource:
    """The stage lines and the table of one folder of headers."""

    def __init__(self, folder=HEADERS):
        self.folder = folder
        self.lines = []
        for place, _, names in sorted(os.walk(folder)):
            for name in sorted(names):
                if name.endswith('.hpp') and name not in ('stage.hpp', 'stage_table.hpp'):
                    self.lines += stage_lines_of(os.path.join(place, name), folder)
        self.rows = read_table(os.path.join(folder, 'stage_table.hpp'))
        self.names = [row.name for row in self.rows if row.name != GRADIENTS]
        others = dict.fromkeys(line.stage for line in self.lines if line.stage not in self.names)
        gradients = [name for name in others if self.is_gradient(name)]
        self.names += [name for name in others if name not in gradients]
        self.names += sorted(gradients, key=lambda name: -self.names.index(name[2:]))  # the last stage's comes first

    def lines_of(self, stage):
        return [line for line in self.lines if line.stage == stage]

    def passed_names(self, is_in_program=lambda line: True):
        """Names that some line passes, in the order of the table: the order of the data."""
        passed = {line.stage for line in self.lines if is_in_program(line)}
        return [name for name in dict.fromkeys(self.names) if name in passed]

    def is_gradient(self, name):
        return name.startswith('d_') and any(row.name == name[2:] for row in self.rows)

    def row(self, stage):
        """The row of a stage; d_NAME is made of the rows of NAME and of all gradients."""
        for row in self.rows:
            if row.name == stage:
                return row
            if row.name == GRADIENTS and self.is_gradient(stage):
                name = stage[2:]
                words = {field: text.replace('NAME', name) for field, text in row._asdict().items()}
                return StageRow(**dict(words, axes=self.row(name).axes, module=row.module))
        return None

    def group(self, stage):
        row = self.row(stage)
        return row.group if row else 'other'


_sources = {}


def source_of(folder):
    """The StageSource of the folder a program was compiled from; of the one beside this file if it is not here."""
    if not folder or not os.path.exists(os.path.join(folder, 'stage.hpp')):
        folder = HEADERS
    if folder not in _sources:
        _sources[folder] = StageSource(folder)
    return _sources[folder]


FIELDS = {'from': 'source'}
LITERAL = r'"(?:[^"\\]|\\.)*"'


def read_table(path):
    """The rows of stage_table.hpp: designated initialisers whose values are texts or StageGroup::name."""
    text = '\n'.join(re.sub(r'^\s*//.*', '', line) for line in lines_of_file(path))
    rows = []
    for body in re.findall(r'\{\s*(\.name\s*=.*?,)\s*\}', text, re.S):
        words = dict.fromkeys(StageRow._fields, '')
        pattern = r'\.(\w+)\s*=\s*((?:%s\s*)+|StageGroup::\w+)\s*,' % LITERAL
        for field, value in re.findall(pattern, body):
            if value.startswith('StageGroup::'):
                value = value[len('StageGroup::'):]
            else:
                value = ''.join(piece[1:-1] for piece in re.findall(LITERAL, value))
                value = value.replace('\\"', '"').replace('\\\\', '\\')
            if FIELDS.get(field, field) in words:
                words[FIELDS.get(field, field)] = value
        rows.append(StageRow(**words))
    return rows
