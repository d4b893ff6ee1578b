"""Where on the way from text to token the program stands, read from its call stack.

The innermost function that passes stages tells it: its stage lines above the current line are done, the one on
the current line has just been completed, those below are to come. Only what the stack cannot tell (the decode
step, the count of stages, the pieces of the text) comes from glassbox::stage_state().
"""
import os

import stage_source
from tensor_view import Garbage, Mistake
from value_views import read_c_string, read_string, vector_elements, view_of

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
        lines = [line for line in lines if self.is_header(frame.file, line)]
        if lines:
            path = lines[0].file
        elif frame.file and os.path.exists(frame.file) and not frame.file.endswith(('.h', '.c')) and '.' in name:
            lines = stage_source.stage_lines_of(frame.file, os.path.dirname(frame.file))
        if not lines or not frame.function_line:
            return []
        end = stage_source.function_end(path, frame.function_line)
        return [line for line in lines if frame.function_line <= line.line <= end]

    def is_header(self, path, line):
        """Whether a file of the program is the header that a stage line stands in, and no other of the same name."""
        return stage_source.is_header(path, line, self.debugger.headers())

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
        here = self.here() if self.debugger.is_running() else None
        if here is None:
            raise Mistake(self.nowhere())
        return here

    def nowhere(self):
        """Why no stage can be told, and what to do about it."""
        if not self.passes_stages():
            return 'this program passes no stage; try walk or generate'
        if not self.debugger.is_running():
            return 'the program is not running: `glass next` starts it and stops at the first stage'
        return 'no function on the stack passes a stage' + self.last_of_all() + self.hint('; `glass next` runs to the next one')

    def last_of_all(self):
        """What the program passed last, in whatever thread."""
        try:
            state = self.debugger.latest_state()
            count = state.field('count').integer() if state else 0
            if count < 1:
                return ''
            name = read_c_string(state.read, state.field('name').integer())
            layer = state.field('layer').integer()
            return '; the last was %s%s, number %d' % (name, '' if layer < 0 else ', layer %d' % layer, count)
        except (Mistake, Garbage):
            return ''

    def passes_stages(self):
        """Whether the program can come to a stage, as far as can be told: no line can be tried in a core file."""
        return self.debugger.is_core() or self.debugger.has_stage_function() \
            or any(self.debugger.has_code(line) for line in self.source().lines)

    def hint(self, text):
        """Advice to run on, where the program can and a stage may come."""
        return '' if self.debugger.is_core() or not self.passes_stages() else text

    def selected_frame(self):
        if not self.debugger.is_running():
            if self.passes_stages():
                raise Mistake(self.nowhere())
            raise Mistake('the program is not running: set a breakpoint, and `run`')
        return self.debugger.selected_frame()

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
        first = self.selected_frame().number
        for frame in self.debugger.frames()[first:]:
            value = frame.variable(name)
            if value is not None:
                return value, frame
        return None, None

    # -- the model --
    def causal_lm(self):
        """The CausalLM that runs, or that a generator on the stack refers to; None if there is none."""
        for frame in self.debugger.frames():
            for name in ('this', 'causal_lm_'):
                value = frame.variable(name)
                if value is not None and value.is_pointer():
                    value = value.target()
                if value is not None and value.type_name().startswith('glassbox::CausalLM<'):
                    return value
        return None

    def config(self):
        """The ModelConfig of the model on the stack; None if there is none."""
        for frame in self.debugger.frames():
            value = frame.variable('config')
            if value is not None and value.type_name().endswith('glassbox::ModelConfig'):
                return value
        model = self.causal_lm()
        return model.field('config') if model is not None else None

    def config_number(self, name):
        """One of its numbers; None where no model is on the stack."""
        config = self.config()
        return config.field(name).integer() if config is not None else None

    # -- the text --
    def context(self):
        """How many tokens the text has at this stop, those in the cache included: attention_mask is that long. None
        outside a forward pass."""
        return self.length_of('attention_mask')

    def length_of(self, name):
        """How many columns a tensor [batch, seq] on the stack has; None where there is none."""
        for frame in self.debugger.frames():
            try:
                value = frame.variable(name)
                view = view_of(value) if value is not None else None
            except Garbage:
                continue
            if view is not None and len(view.axes) == 2:
                return view.shape[1]
        return None

    def first_position(self, axis):
        """The position in the text of an axis's first token: the tokens of an input are the last of the text."""
        context, whole = self.context(), axis.whole or axis.size
        if axis.name not in ('seq', 'query') or context is None or whole > context or self.is_broadcast(axis):
            return axis.first
        return context - whole + axis.first

    def is_broadcast(self, axis):
        """Whether an axis stands for all queries, as that of expanded_mask. (A seq of one is the last position's.)"""
        return axis.name == 'query' and (axis.whole or axis.size) == 1 and self.length_of('input_ids') not in (None, 1)

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
        state = self.debugger.stage_state()
        if state is None:
            return '', -1
        return read_c_string(state.read, state.field('name').integer()), state.field('layer').integer()

    def pieces(self):
        """The tokens of the text so far, the current input included; [] where the program does not know them."""
        try:
            state = self.debugger.stage_state()
            if state is None:
                return []
            return [visible(read_string(state.read, address))
                    for address in vector_elements(state.field('pieces'), STRING_BYTES)]
        except (Mistake, Garbage):
            return []

    def words_for(self, axis):
        """The tokens along an axis of a tensor, where it runs over those of the input, the last ones, or of the text."""
        if axis.name not in ('seq', 'query', 'key'):
            return None
        pieces, context, whole = self.pieces(), self.context(), axis.whole or axis.size
        if not pieces or len(pieces) != (whole if context is None else context):
            return None  # of another text, or none
        if whole > len(pieces) or (axis.name == 'key' and whole != len(pieces)) or self.is_broadcast(axis):
            return None
        first = len(pieces) - whole + axis.first
        return [pieces[first + i * axis.step] for i in range(axis.size)]


def visible(piece):
    """A piece as one sees it in a terminal: the space that vocabularies spell U+2581 becomes _."""
    text = piece.replace('\u2581', '_')
    return ''.join(letter if letter.isprintable() else '?' for letter in text)
