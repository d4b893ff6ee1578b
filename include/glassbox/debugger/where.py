"""Where on the way from text to token the program stands, read from its call stack.

The innermost function that passes stages tells it: its stage lines above the current line are done, the one on
the current line has just been completed, those below are to come. Only what the stack cannot tell (the decode
step, the count of stages, the pieces of the input) comes from glassbox::stage_state().
"""
import os

import stage_source
from tensor_view import Garbage, Mistake
from value_views import read_string, vector_elements

STRING_BYTES = 32  # sizeof(std::string) of libstdc++


def function_name(text):
    """'long glassbox::f<float>(int) const' -> 'glassbox::f<float>': lldb puts the type of a template in front."""
    depth, start = 0, 0
    for i, letter in enumerate(text):
        if letter == '(' and depth == 0 and not text.startswith('(anonymous', i):
            return text[start:i]
        depth += {'<': 1, '(': 1, '>': -1, ')': -1}.get(letter, 0)
        if letter == ' ' and depth == 0 and text[start:i] != 'operator':
            start = i + 1
    return text[start:]


def is_stage_function(name):
    return name.split('<')[0] == 'glassbox::stage'


class Here:
    """A place among the stages. `at`: the stage line the program stands on, its value complete, or None;
    `last`, `coming`: the stage lines before and after, in this function, or None."""

    def __init__(self, frame, lines, layer):
        self.frame, self.layer = frame, layer
        self.at = next((line for line in lines if line.line == frame.line), None)
        self.last = next((line for line in reversed(lines) if line.line < frame.line), None)
        self.coming = next((line for line in lines if line.line > frame.line), None)

    def value(self):
        """The value of the stage at this stop."""
        return self.value_of(self.at)

    def value_of(self, line):
        """The variable, or member of one, that a stage line passes on."""
        name = line.tensor
        owner, _, member = name.partition('.')
        value = self.frame.variable(owner)
        while value is not None and member:
            owner, _, member = member.partition('.')
            value = value.field(owner)
        if value is None:
            raise Mistake('%s is not visible in %s' % (name, self.frame.function))
        return value

    def words(self):
        """'scores, layer 2'"""
        line = self.at or self.last or self.coming
        return line.stage + ('' if self.layer < 0 else ', layer %d' % self.layer)


class Where:
    def __init__(self, debugger):
        self.debugger = debugger

    def source(self):
        return stage_source.source_of(self.debugger.headers())

    def lines_of(self, frame):
        """Stage lines of the function that a frame is in."""
        name = os.path.basename(frame.file)
        source = self.source()
        path, lines = frame.file, [line for line in source.lines if os.path.basename(line.file) == name]
        if lines:
            path = lines[0].file
        elif frame.file and os.path.exists(frame.file) and not frame.file.endswith(('.h', '.c')) and '.' in name:
            lines = stage_source.stage_lines_of(frame.file, os.path.dirname(frame.file))
        if not lines or not frame.function_line:
            return []
        end = stage_source.function_end(path, frame.function_line)
        return [line for line in lines if frame.function_line <= line.line <= end]

    def here(self):
        """None where no function on the stack passes stages."""
        for frame in self.debugger.frames():
            if is_stage_function(frame.function) or frame.function.startswith(('std::', 'Eigen::')):
                continue
            lines = self.lines_of(frame)
            if lines:
                return Here(frame, lines, self.layer_in(frame, lines))
        return None

    def here_or_refuse(self):
        if not self.debugger.is_running():
            raise Mistake('the program is not running: `glass next` starts it and stops at the first stage')
        here = self.here()
        if here is None:
            raise Mistake('no function on the stack passes a stage; `glass next` runs to the next one')
        return here

    def layer_in(self, frame, lines):
        if all(line.layer.lstrip('-').isdigit() for line in lines):
            return int(lines[0].layer)
        value = frame.variable('layer')
        try:
            return value.integer() if value is not None else -1
        except Garbage:
            return -1

    def find_variable(self, name):
        """(value, frame) of a variable in the selected frame or, if there is none, in the nearest caller."""
        first = self.debugger.selected_frame().number
        for frame in self.debugger.frames()[first:]:
            value = frame.variable(name)
            if value is not None:
                return value, frame
        return None, None

    # -- stage_state() --
    def step(self):
        try:
            state = self.debugger.stage_state()
            return state.field('step').integer() if state else 0
        except (Mistake, Garbage):
            return None

    def count(self):
        """Stages passed since the program began, the one at this stop not yet included."""
        state = self.debugger.stage_state()
        return state.field('count').integer() if state else 0

    def last_passed(self):
        """(name, layer) of the stage passed last."""
        from value_views import read_c_string
        state = self.debugger.stage_state()
        if state is None:
            return '', -1
        return read_c_string(state.read, state.field('name').integer()), state.field('layer').integer()

    def pieces(self):
        """The tokens of the current input as text; [] where the program does not know them."""
        try:
            state = self.debugger.stage_state()
            if state is None:
                return []
            return [visible(read_string(state.read, address))
                    for address in vector_elements(state.field('pieces'), STRING_BYTES)]
        except (Mistake, Garbage):
            return []

    def words_for(self, axis):
        """The tokens along an axis of a tensor, where it runs over the tokens of the input."""
        if axis.name not in ('seq', 'query', 'key'):
            return None
        pieces = self.pieces()
        return pieces if len(pieces) == axis.size else None


def visible(piece):
    """A piece as one sees it in a terminal: the space that vocabularies spell U+2581 becomes _."""
    text = piece.replace('\u2581', '_')
    return ''.join(letter if letter.isprintable() else '?' for letter in text)
