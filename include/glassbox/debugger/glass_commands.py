"""The commands `glass ...`, the same in gdb and lldb. What a debugger must offer: class Debugger in
glassbox_gdb.py and glassbox_lldb.py."""
import difflib
import os
import re
import struct
import unicodedata

import expected
import expressions
import lens
import npy
import tour
from compare import compare
from heat_map import heat_map
from stage_source import source_of
from tensor_view import BLOCK, Garbage, Mistake, exact, integer, limits, number, parsed, split_slice
from value_views import behind, element_of, has_view, vector_element, view_of
from where import Here, Where

COMMANDS = {
    'stages': ('glass stages', 'Where you are on the way from text to token: done, here, to come.'),
    'next': ('glass next [STAGE] [--layer N]',
             'Runs to the next stage, or to the next STAGE, and stops on its own line with its value complete. '
             'Starts the program if it is not running.'),
    'break': ('glass break STAGE [--layer N] [--seq N] [--hit N] [--if EXPR] [--head N] [--position N]',
              'Stops whenever STAGE is passed. --layer: in that layer only; --seq: only if the axis seq or query has '
              'N elements (or ">=N"); --hit: at the N-th time that all this is so; --if: only if EXPR, looked at on '
              'that line, is true. --head and --position choose what is printed there.'),
    'back': ('glass back', 'To the stage before this one: starts the program again and runs there, counting stages.'),
    'show': ('glass show [T[SLICE]]',
             'The numbers of a tensor: scores, scores[0, 3], scores[0, :, 2, 0:4]. The top tokens of a row of the '
             'vocabulary (logits, top_k, probabilities): `glass lens`.'),
    'heat': ('glass heat [T[SLICE]] [--plain]', 'A tensor as a picture; attention has the tokens at both axes.'),
    'stats': ('glass stats [T[SLICE]]', 'Statistics over all elements, in double, with eight digits.'),
    'find': ('glass find nan|inf|constant [T[SLICE]]',
             'Where the NaN, the infinities, the rows of equal numbers are; without T in every tensor in sight.'),
    'diff': ('glass diff A B [--tolerance X]',
             'Compares two tensors, slices or .npy files: first and largest difference, and what it looks like: a '
             'constant shift, a transposition, a permutation, the rounding of half precision.'),
    'dump': ('glass dump T[SLICE] FILE.npy', 'Writes a tensor for NumPy. `glass limits dump=N` allows more bytes.'),
    'tokens': ('glass tokens', 'The tokens of the current input: position, id, piece.'),
    'config': ('glass config', 'The configuration of the model that runs: its sizes, and what follows from them.'),
    'why': ('glass why [STAGE]', 'What a stage is for, its formula, and why its shape is what it is.'),
    'expect': ('glass expect [FOLDER]',
               'Compares the value at this stop with a reference (FOLDER holds index.json and .npy files).'),
    'lens': ('glass lens [T[SLICE]] [--top N] [--position N]',
             'What the model would say if it stopped here: the top tokens of a hidden state after the final norm '
             'and the LM head, computed in the debugger. Of logits, and of what the sampler makes of them, the top '
             'tokens after softmax; of probabilities as they are.'),
    'notes': ('glass notes FILE.md', 'Appends this stop to a file: stage, shapes, a corner of numbers, source line.'),
    'mute': ('glass mute', 'Disables all breakpoints; `glass unmute` enables those again.'),
    'unmute': ('glass unmute', 'Enables what `glass mute` disabled.'),
    'set': ('glass set T[INDICES] VALUE', 'Changes one number of a tensor; the program goes on with it.'),
    'tour': ('glass tour [N|list|zh|en]',
             'Runs to the next must-see place and tells what to look at there. `glass tour zh` speaks Chinese (中文).'),
    'limits': ('glass limits [NAME=N ...]', 'Shows or sets how much is read and printed; 0 is no limit.'),
    'help': ('glass help [COMMAND]', 'This, or more about one command.'),
}

# The name under which callers hold a stage's value, or the part of it that they go on with
ALSO_CALLED = {'logits': 'next_token_logits'}

# What --head and --position of `glass break` choose from, and the member of the configuration that tells how many
CHOSEN_AXES = {'head': ('head', 'kv_head'), 'position': ('seq', 'query')}
COUNTED_BY = {'head': 'num_attention_heads', 'kv_head': 'num_key_value_heads'}

# Members of glassbox::ModelConfig
CONFIG_NUMBERS = ['vocab_size', 'hidden_size', 'intermediate_size', 'num_hidden_layers', 'num_attention_heads',
                  'num_key_value_heads', 'head_dim', 'max_position_embeddings', 'rms_norm_eps', 'rope_theta',
                  'tie_word_embeddings']
CONFIG_DOUBLES = ('rms_norm_eps', 'rope_theta')


def short_help(name):
    return COMMANDS[name][1].split('. ')[0].split(': ')[0].rstrip('.')


INTRODUCTION = '''glassbox: see, step and check the tensors of a language model.

Every value on the way from text to token has a name, its stage: `glass stages` lists them in order.
`glass show scores` prints one, `glass show model.layers[0].self_attn.q_proj.weight` a weight, wherever the model
runs. In the function that makes it the name is the variable, too: `p scores` in gdb, `v scores` in lldb. Where a
module bears the name, the variable is NAME_output: q_proj_output, input_layernorm_output.

A first session:
  glass next              start, stop at the first stage: input_ids
  glass next scores       run on to the attention scores of layer 0
  glass why               what they are and why their shape is [batch, head, query, key]
  glass heat scores[0, 0] head 0 as a picture, tokens at both axes
  glass back              to the stage before
'''

COMMAND_LIST = '\nCommands (`glass help NAME` tells more):\n' + '\n'.join(
    '  %-10s %s' % (name, short_help(name)) for name in COMMANDS) + '\n'

NOTATION = '''
T is a tensor, a weight or an Eigen matrix in this function or a caller; left out, it is the value of the stage
at this stop. SLICE counts from 0: [0, 3] one head, [:, :, 2] one query of all, [0, 0, 0:4] a part.
`step` enters only lines of glassbox and of your program; finish, next, up, down work as always.'''

HELP = INTRODUCTION + COMMAND_LIST + NOTATION


def split_words(text):
    """Words at blanks that are not inside brackets or quotes."""
    words, word, depth, quote = [], '', 0, ''
    for letter in text:
        if quote:
            quote = '' if letter == quote else quote
            word += '' if not quote and letter in '\'"' else letter
        elif letter in '\'"':
            quote = letter
        elif letter.isspace() and depth == 0:
            if word:
                words.append(word)
            word = ''
        else:
            depth += {'[': 1, '(': 1, ']': -1, ')': -1}.get(letter, 0)
            word += letter
    return words + [word] if word else words


def take_options(words, known):
    """({name: text}, the other words); options are --name VALUE, --name=VALUE; known[name] False: no value."""
    options, rest, i = {}, [], 0
    while i < len(words):
        word = words[i]
        if word.startswith('--'):
            name, equals, value = word[2:].partition('=')
            if name not in known:
                raise Mistake('%s is not known; known are: %s'
                              % (word, ' '.join('--' + k for k in known) or 'no options'))
            if known[name] and not equals:
                i += 1
                if i >= len(words):
                    raise Mistake('--%s needs a value' % name)
                value = words[i]
            options[name] = value
        else:
            rest.append(word)
        i += 1
    return options, rest


def whole(text, what):
    try:
        return integer(text)
    except ValueError:
        raise Mistake('%s: expected a whole number, got %s' % (what, text)) from None


def closest(word, names):
    """Those of the names that `word` may have been meant for, the likeliest first."""
    near = difflib.get_close_matches(word, names, 3, 0.6)
    return near or [name for name in names if word in name or name in word][:6]


def did_you_mean(near):
    return ' (did you mean %s?)' % ', '.join(near) if near else ''


def unknown_command(name):
    near = closest(name, COMMANDS)
    return Mistake('no command is called %s%s' % (
        name, did_you_mean(near) if near else '; there are: %s' % ', '.join(COMMANDS)))


class Glass:
    def __init__(self, debugger):
        self.debugger = debugger
        self.where = Where(debugger)
        self.expected = expected.Expected(self.where)
        self.tour = tour.Tour(self)
        self.muted = []

    def run(self, text):
        words = split_words(text)
        if not words:
            words = ['help']
        name, words = words[0], words[1:]
        if name in ('--help', '-h'):
            name = 'help'
        if name not in COMMANDS:
            raise unknown_command(name)
        if words and words[0] in ('--help', '-h'):
            name, words = 'help', [name]
        if words and COMMANDS[name][0] == 'glass ' + name:
            raise Mistake('`glass %s` takes nothing more' % name)
        if len(words) > 1 and name in ('why', 'expect', 'help'):
            raise Mistake('%s is too much: %s' % (words[1], COMMANDS[name][0]))
        getattr(self, 'do_' + name)(words)

    def complete(self, text, word):
        words = text.split()
        if len(words) <= 1 and not text.endswith(' '):
            return [name for name in COMMANDS if name.startswith(word)]
        if words[0] in ('next', 'break', 'why'):
            return [name for name in self.where.source().names if name.startswith(word)]
        return [name for name in COMMANDS if name.startswith(word)] if words[0] == 'help' else []

    def say(self, text):
        self.debugger.print(text)

    # ---- finding tensors ----
    def view(self, text):
        """The view that `scores[0, 1]`, `this->weight` or `file.npy` names."""
        if text.endswith('.npy'):
            return npy.read(text)
        base, indices = split_slice(text)
        if indices is not None and base.endswith('.npy'):
            return npy.read(base).slice(indices)
        if indices is not None:
            view = self.named(base, required=False)
            if view is not None:
                return view.slice(indices)
        return self.named(text)

    def named(self, text, required=True):
        value = self.stage_value(text) if re.match(r'^\w+$', text) else None
        if value is not None:
            return view_of(value, text)
        if re.match(r'^\w+$', text):
            value, frame = self.where.find_variable(text)
            if value is None:
                value, frame = self.debugger.global_variable(text), None
            if value is None and text in ALSO_CALLED and self.where.find_variable(ALSO_CALLED[text])[0] is not None:
                return self.named(ALSO_CALLED[text])
            if value is not None and frame is not None and frame.is_unfinished(text):
                raise Mistake('%s is not computed yet at this line' % text)
        if value is None:
            if required and re.match(r'^\w+$', text) and not text.isdigit():
                raise Mistake('no variable is called %s here or in a caller%s' % (text, self.in_sight(text)))
            try:
                value = self.evaluate_here_or_in_a_caller(text)
            except Mistake:
                if required:
                    raise
                return None
        if value.is_pointer() and not value.integer():
            raise Mistake('%s is a null pointer' % text)
        if value.is_pointer() and has_view(value.target().type_name()):
            value = value.target()
        if not has_view(value.type_name()) and not value.type_name().startswith(('glassbox::StageRecord', 'Eigen::')):
            if required:
                raise Mistake('%s is a %s, not a tensor' % (text, value.type_name()))
            return None
        return view_of(value, text)

    def in_sight(self, text):
        """For a variable that is not there: the tensors with similar names, else those in this function."""
        frames = self.debugger.frames()[self.where.selected_frame().number:]
        tensors = [[name for name, value in frame.locals() if has_view(value.type_name())] for frame in frames]
        near = closest(text, sum(tensors, [])) if len(text) > 2 else []
        if near:
            return did_you_mean(near)
        here = next((names for names in tensors if names), [])
        return '; in sight are %s' % ', '.join(here) if here else ''

    def follow(self, text):
        """What `layers[1].self_attn.q_proj.weight` names, from a variable or member of this function or of the nearest
        caller that has it; None where that leads nowhere. Members and elements of a std::vector only."""
        path = re.match(r'^\*?([A-Za-z_]\w*)((?:\.\w+|->\w+|\[-?\d+\])*)$', text)
        value = self.where.find_variable(path.group(1))[0] if path else None
        if value is None and path:  # model.layers[0] where the sampler runs
            causal_lm = self.where.causal_lm()
            value = causal_lm.field(path.group(1)) if causal_lm is not None else None
        for step in re.findall(r'\.\w+|->\w+|\[-?\d+\]', path.group(2)) if value is not None else []:
            if step[0] != '[' or value.is_pointer():
                value = (behind(value) if step[0] == '-' or value.is_pointer() else None) or value
            value = vector_element(value, int(step[1:-1])) if step[0] == '[' else value.field(step.lstrip('->.'))
            if value is None:
                return None
        return behind(value) if value is not None and text.startswith('*') else value

    def evaluate_here_or_in_a_caller(self, text):
        first = self.where.selected_frame().number
        value = self.follow(text)
        if value is not None:
            return value
        expressions.check(text)
        for frame in self.debugger.frames()[first:]:
            try:
                return self.debugger.evaluate(text, frame)
            except Mistake:
                continue
        raise Mistake(self.why_no_value(text))

    def why_no_value(self, text):
        """In words of our own: those of the debuggers differ, and lldb's do not help."""
        unknown = [name for name in expressions.names_in(text)
                   if self.where.find_variable(name)[0] is None and self.debugger.global_variable(name) is None]
        if unknown:
            return 'no variable is called %s here or in a caller' % unknown[0]
        return '%s has no value here' % text

    def is_true(self, text):
        """Whether an expression is true at this stop; Mistake where that cannot be told."""
        expressions.check(text)
        try:
            return self.debugger.evaluate(text).integer() != 0
        except (Mistake, Garbage):
            raise Mistake(self.why_no_value(text)) from None

    def stage_value(self, name):
        """The value of a stage that a function on the stack has passed, where the variable bears another name:
        q_proj is a module and its value q_proj_output, cached_keys is cache.keys. Else None."""
        lines = [line for line in self.where.source().lines_of(name) if line.tensor != name]
        if not lines or not self.debugger.is_running():
            return None
        for frame in self.debugger.frames()[self.debugger.selected_frame().number:]:
            passed = [line for line in self.where.lines_of(frame) if line in lines and line.line <= frame.line]
            if passed:
                return Here(frame, passed, -1).value_of(passed[-1])
        return None

    def view_or_here(self, words, command):
        """The tensor that is named, else the value at this stop."""
        if len(words) > 1:
            raise Mistake('one tensor is wanted: %s' % COMMANDS[command][0])
        if words:
            return self.view(words[0])
        here = self.where.here_or_refuse()
        if here.at is None:
            raise Mistake('no stage is complete on this line: name a tensor' + self.where.hint(', or `glass next`'))
        return view_of(here.value(), here.at.stage)

    # ---- the way ----
    def do_stages(self, words):
        source = self.where.source()
        names = source.passed_names(self.debugger.has_code)
        here = self.where.here() if self.debugger.is_running() else None
        place = (here.at or here.coming or here.last) if here else None
        position = names.index(place.stage) if place and place.stage in names else None
        if here is None:
            text = self.where.nowhere()
            self.say(text[0].upper() + text[1:] + '.')
        else:
            step = self.where.step()
            pass_text = '' if step is None else ', prefill' if step == 0 else ', decode step %d' % step
            how = 'at' if here.at else 'before' if here.coming else 'after'
            self.say('%s the stage %s%s%s' % (how, place.stage,
                                            '' if here.layer < 0 else ', layer %d' % here.layer, pass_text))
        group = None
        for i, name in enumerate(names):
            row = source.row(name)
            if row and row.group != group:
                group = row.group
                self.say({'input': 'before the layers', 'layer': 'in every layer', 'head': 'after the layers',
                          'choosing': 'choosing the token'}.get(group, group))
            mark = ' '
            if position is not None:
                mark = 'done' if i < position else ('=>' if here.at else '->') if i == position else ''
            self.say('  %4s %-26s %s' % (mark, name, row.axes if row else ''))

    def wanted_lines(self, stage):
        source = self.where.source()
        if stage is None:
            return source.lines
        lines = source.lines_of(stage)
        if lines:
            return lines
        row = source.row(stage)
        if row:
            raise Mistake('%s passes no stage() here%s' % (stage, ': ' + row.when if row.when else ''))
        names = [name for name in source.passed_names() if stage.startswith('d_') or not source.is_gradient(name)]
        module = [name for name in names if source.row(name) and ' %s.' % stage in ' ' + source.row(name).source]
        near = module or closest(stage, names)
        raise Mistake('no stage is called %s%s; `glass stages` lists them' % (stage, did_you_mean(near)))

    def check_layer(self, stage, lines, layer):
        """Refuses a layer that can never come."""
        if layer is None:
            return
        if stage and layer >= 0 and all(line.layer == '-1' for line in lines):
            raise Mistake('--layer %d: %s belongs to no layer' % (layer, stage))
        if layer < -1:
            raise Mistake('--layer %d: layers are counted from 0' % layer)
        count = self.where.config_number('num_hidden_layers')
        if count and not -1 <= layer < count:
            raise Mistake('--layer %d: the layers are 0..%d' % (layer, count - 1))

    def layer_at(self, line):
        if line.layer.lstrip('-').isdigit():
            return int(line.layer)
        value = self.debugger.frames()[0].variable('layer')
        return value.integer() if value is not None else -1

    def run_to(self, lines, wanted, start=None, sought=''):
        """Runs until `wanted` accepts one of the lines; tells where the program then stands, or what never came."""
        reached = []

        def decide(line):
            if wanted(line):
                reached.append(line)
                return True
            return False
        stops = self.stops_at(lines, decide, keep=False)
        try:
            (start or self.debugger.resume)()
        finally:
            self.debugger.remove_stops(stops)
        if not self.debugger.is_running():
            self.say('The program has ended%s.' % (': it passed no %s on the way' % sought if sought else ''))
        elif reached:
            self.tell_stop()
        else:
            self.say('Stopped before, by something else.')
        return bool(reached)

    def stops_at(self, lines, wanted, keep):
        """Stops at those of the lines that the program holds; refuses where it holds none."""
        stops = self.debugger.set_stops(lines, wanted, keep)
        if not stops:
            any_stage = self.debugger.set_stops(self.where.source().lines, wanted, keep=False)
            self.debugger.remove_stops(any_stage)
            if any_stage:
                raise Mistake('this program does not pass the stage %s' % lines[0].stage)
            if self.debugger.has_stage_function():
                raise Mistake('this program passes stages, but no breakpoint can be set on their lines: it was compiled '
                              'with optimisation. Compile it with -O0 -g, or as the study build (debugger/study_build.hpp)')
            raise Mistake('this program passes no stage; try walk or generate')
        return stops

    def without_breakpoints(self, run):
        """The user's breakpoints do not stop what `run` does."""
        silenced = [one for one in self.debugger.breakpoints() if self.debugger.is_enabled(one)]
        for one in silenced:
            self.debugger.enable(one, False)
        try:
            run()
        finally:
            for one in silenced:
                self.debugger.enable(one, True)

    def tell_stop(self):
        here = self.where.here()
        frame = self.debugger.frames()[0]
        self.say('%s at %s:%d' % (frame.function, os.path.basename(frame.file), frame.line))
        self.say('%d\t%s' % (frame.line, self.debugger.source_line(frame)))
        if here and here.at:
            self.say('%s: %s' % (here.words(), view_of(here.value()).summary()))
        else:
            self.say('No stage is passed on this line: the headers are newer than the program? Compile it again.')

    def do_next(self, words):
        options, words = take_options(words, {'layer': True})
        if len(words) > 1:
            raise Mistake('one stage is wanted: %s' % COMMANDS['next'][0])
        if self.debugger.is_core():
            raise Mistake('a core file is a photograph: it cannot run')
        lines = self.wanted_lines(words[0] if words else None)
        layer = whole(options['layer'], '--layer') if 'layer' in options else None
        self.check_layer(words[0] if words else None, lines, layer)
        sought = '' if not words else words[0] if layer is None else '%s of layer %d' % (words[0], layer)
        self.run_to(lines, lambda line: layer is None or self.layer_at(line) == layer, sought=sought)

    def do_break(self, words):
        options, words = take_options(words, {'layer': True, 'seq': True, 'hit': True, 'if': True, 'head': True,
                                             'position': True})
        if len(words) > 1 and 'if' in options:
            raise Mistake('--if takes one word, so an expression with spaces must be quoted: '
                          '--if "layer == 2 && query > 3"')
        if len(words) != 1:
            raise Mistake('which stage? %s' % COMMANDS['break'][0])
        if self.debugger.is_core():
            raise Mistake('a core file is a photograph: it cannot run')
        lines = self.wanted_lines(words[0])
        condition = StageCondition(self, options)
        condition.check(words[0], lines)
        stops = self.stops_at(lines, condition, keep=True)
        numbers = condition.numbers = ', '.join(map(str, self.debugger.numbers(stops)))
        places = ', '.join('%s:%d' % (os.path.basename(line.file), line.line) for line in self.debugger.places(stops))
        self.say('Breakpoint %s: stage %s at %s%s' % (numbers, words[0], places, condition.text()))

    def do_back(self, words):
        refusal = self.debugger.can_run()
        if refusal:
            raise Mistake('cannot go back: %s' % refusal)
        self.where.here_or_refuse()
        if not self.debugger.passed_last():
            raise Mistake('cannot go back: another thread has passed a stage since, and they are counted together')
        count = self.where.count()
        if count == 0:
            raise Mistake('this is the first stage: there is none before it')
        name, layer = self.where.last_passed()

        def run():
            restart = self.debugger.restart
            if count > 1:
                self.pass_stages(count - 1)
                restart = self.debugger.resume
            self.run_to(self.where.source().lines, lambda line: True, restart)
        self.without_breakpoints(run)
        here = self.where.here()
        if here is None or here.at is None or (here.at.stage, here.layer) != (name, layer):
            self.say('Warning: this run differs from the one before, where stage %s came here.' % name)

    def pass_stages(self, count):
        """Restarts and stops inside the `count`-th call of stage()."""
        stops = self.debugger.skip_stages(count - 1)
        try:
            self.debugger.restart()
        finally:
            self.debugger.remove_stops(stops)

    # ---- looking ----
    def do_show(self, words):
        self.print_rows(self.view_or_here(words, 'show'))

    def print_rows(self, view):
        """A summary, and rows with the tokens they belong to."""
        self.say('%s %s' % (view.label, view.summary()))
        words_of_rows = self.where.words_for(view.axes[-2]) if len(view.axes) >= 2 else None
        lines = view.rows_text()
        margin = max([len(label) for label, _ in lines] or [0])
        for row, (label, text) in enumerate(lines):
            word = ''
            if words_of_rows and label != '[...]':
                word = '  ' + words_of_rows[view.row_index(row)[-1]]
            self.say('  %s %s%s' % (label.ljust(margin), text, word))

    def do_heat(self, words):
        options, words = take_options(words, {'plain': False})
        view = self.view_or_here(words, 'heat')
        rows = self.where.words_for(view.axes[-2]) if len(view.axes) >= 2 else None
        columns = self.where.words_for(view.axes[-1]) if view.axes else None
        colour = self.debugger.colour() and os.environ.get('TERM') != 'dumb' and 'plain' not in options
        self.say(heat_map(view, colour, rows, columns))

    def do_stats(self, words):
        view = self.view_or_here(words, 'stats')
        statistics, complete = view.statistics(limits.statistics)
        self.say('%s %s' % (view.label, view.type_text()))
        self.say('  elements %d, %d bytes, %s' % (
            view.size, view.size * view.element.bytes,
            'row after row' if view.is_row_major() else 'with gaps or in another order than rows'))
        if not complete:
            self.say('  of %d of them, spread evenly (`glass limits statistics=0` reads all):' % statistics.count)
        if statistics.minimum is None:
            self.say('  no finite number; nan %d, +inf %d, -inf %d'
                     % (statistics.nan, statistics.plus_inf, statistics.minus_inf))
            return
        self.say('  min %s  max %s  sum %s  mean %s  std %s' % (
            exact(statistics.minimum), exact(statistics.maximum), exact(statistics.sum), exact(statistics.mean),
            exact(view.deviation(statistics, limits.statistics))))
        self.say('  nan %d, +inf %d, -inf %d' % (statistics.nan, statistics.plus_inf, statistics.minus_inf))

    def do_find(self, words):
        kinds = {'nan': 'NaN', 'inf': 'infinity', 'constant': 'row of equal numbers'}
        if not words or words[0] not in kinds or len(words) > 2:
            raise Mistake('what? %s' % COMMANDS['find'][0])
        views = [self.view(words[1])] if len(words) == 2 else list(self.views_in_sight())
        found, in_part, effort = 0, [], Effort()
        for view in views:
            places, looked = find_places(view, words[0], effort)
            if places:
                found += 1
                more = ', ...' if len(places) > 5 else ''
                what = kinds[words[0]] + ' at' if words[0] == 'constant' else how_many_of(view, words[0]) + ':'
                self.say('%s %s: %s %s%s' % (view.label, view.type_text(), what, ', '.join(places[:5]), more))
            elif looked < view.size:
                in_part.append('%s: %d of %d elements' % (view.label, looked, view.size))
        if not found:
            self.say('no %s in %s' % (kinds[words[0]], views[0].label if len(views) == 1
                                      else '%d tensors' % len(views)))
        if in_part:
            self.say('Looked at in part, from the first on: %s (`glass limits statistics=0` looks at all)'
                     % ', '.join(in_part))

    def views_in_sight(self):
        """Tensors among the variables of the selected function and its callers."""
        seen = set()
        for frame in self.debugger.frames()[self.where.selected_frame().number:]:
            for name, value in frame.locals():
                try:
                    if not has_view(value.type_name()) or value.address() in seen:
                        continue
                    seen.add(value.address())
                    view = view_of(value, name)
                except Garbage:
                    continue
                if view.element.floating and view.size:
                    yield view

    def do_diff(self, words):
        options, words = take_options(words, {'tolerance': True})
        if len(words) != 2:
            raise Mistake('two tensors are wanted: %s' % COMMANDS['diff'][0])
        try:
            tolerance = float(options.get('tolerance', 1e-5))
        except ValueError:
            raise Mistake('--tolerance: expected a number, got %s' % options['tolerance']) from None
        if not 0 <= tolerance < float('inf'):
            raise Mistake('--tolerance: expected a finite number, 0 or more, got %s' % options['tolerance'])
        self.say(compare(self.view(words[0]), self.view(words[1]), tolerance))

    def do_dump(self, words):
        if len(words) != 2 or not words[1].endswith('.npy'):
            raise Mistake('what, and into which .npy file? %s' % COMMANDS['dump'][0])
        view = self.view(words[0])
        path = os.path.expanduser(words[1])
        try:
            written = npy.write(view, path)
        except OSError as error:
            raise Mistake('%s: %s' % (path, error.strerror)) from None
        self.say('%s: %s, %d bytes' % (words[1], view.type_text(), written))

    def do_tokens(self, words):
        pieces, context, first = self.where.pieces(), self.where.context(), 0
        ids, _ = self.where.find_variable('input_ids')
        numbers, others = [], []
        if ids is not None:
            try:
                view = view_of(ids)
                rows = [list(row) for _, row in view.rows()] if view.size else [[]]
                numbers, others = rows[0], rows[1:]
            except Garbage:
                pass
        if not pieces and not numbers:
            raise Mistake('the tokens are not known here: stop inside a forward pass'
                          + self.where.hint(' (`glass next`)'))
        if numbers:  # the last of the text
            first = max(0, (context or 0) - len(numbers))
            pieces = pieces[first:] if len(pieces) == first + len(numbers) else []
        for number_of, row in enumerate([numbers] + others):
            if others:  # the pieces are those of one text, and which one cannot be told
                self.say('batch %d' % number_of)
                pieces = []
            for i in range(max(len(pieces), len(row))):
                line = '  %4d  %6s  %s' % (first + i, row[i] if row else '', pieces[i] if pieces else '')
                self.say(line.rstrip())

    def do_config(self, words):
        config = self.where.config()
        if config is None:
            raise Mistake('no model on the stack: stop inside CausalLM::forward' + self.where.hint(' (`glass next`)'))
        numbers = {}
        for name in CONFIG_NUMBERS:
            field = config.field(name)
            if name in CONFIG_DOUBLES:
                numbers[name] = struct.unpack('<d', bytes(config.read(field.address(), 8)))[0]
            else:
                numbers[name] = field.integer()
        heads, kv_heads = numbers['num_attention_heads'], numbers['num_key_value_heads']
        remarks = {
            'num_key_value_heads': 'each serves %d query heads' % (heads // kv_heads) if kv_heads else '',
            'head_dim': '%d heads * %d = %d' % (heads, numbers['head_dim'], heads * numbers['head_dim']),
            'max_position_embeddings': 'the context: tokens a text may have',
            'tie_word_embeddings': 'the LM head is the embedding matrix' if numbers['tie_word_embeddings'] else '',
        }
        for name in CONFIG_NUMBERS:
            text = '%g' % numbers[name] if name in CONFIG_DOUBLES else str(numbers[name])
            self.say(('  %-24s %-8s %s' % (name, text, remarks.get(name, ''))).rstrip())

    def do_why(self, words):
        here = self.where.here() if self.debugger.is_running() else None
        if words:
            name = words[0]
        else:
            here = self.where.here_or_refuse()
            name = (here.at or here.coming or here.last).stage
        source = self.where.source()
        row = source.row(name)
        if row is None:
            self.wanted_lines(name)
            raise Mistake('stage_table.hpp in %s has no row for %s' % (source.folder, name))
        self.say('%s %s' % (name, row.axes))
        if here and here.at and here.at.stage == name:
            self.say('  here          %s' % view_of(here.value()).type_text())
        for word, text in (('formula', row.formula), ('from', row.source), ('made by', row.module),
                           ('why', row.why), ('transformers', row.transformers), ('llama.cpp', row.llama_cpp),
                           ('only with', row.when)):
            if text:
                self.say('\n'.join(wrapped('  %-13s ' % word, text)))

    def do_expect(self, words):
        if words:
            self.expected.open(words[0])
        self.say(self.expected.text(self.where.here_or_refuse()))

    def do_lens(self, words):
        options, words = take_options(words, {'top': True, 'position': True})
        view = self.view_or_here(words, 'lens')
        here = self.where.here()
        already = not words and here is not None and here.at is not None and here.at.stage == 'norm'
        position = whole(options['position'], '--position') if 'position' in options else None
        self.say(lens.lens(self.where, view, already, whole(options.get('top', '5'), '--top'), position))

    def do_notes(self, words):
        if len(words) != 1:
            raise Mistake('into which file? %s' % COMMANDS['notes'][0])
        here = self.where.here_or_refuse()
        frame = self.debugger.frames()[0] if here.at is None else here.frame
        lines = ['## %s' % here.words(), '',
                 '%s:%d `%s`' % (os.path.basename(frame.file), frame.line, self.debugger.source_line(frame)), '']
        if here.at is not None:
            view = view_of(here.value(), here.at.stage)
            lines += ['`%s %s`' % (view.label, view.summary()), '', '```']
            lines += ['%s %s' % line for line in view.rows_text()] + ['```', '']
            row = self.where.source().row(here.at.stage)
            lines += ['`%s`' % row.formula, '', row.why, ''] if row else []
        for name, value in here.frame.locals():
            try:
                if has_view(value.type_name()):
                    lines.append('- %s `%s`' % (name, view_of(value).type_text()))
            except Garbage:
                continue
        try:
            with open(os.path.expanduser(words[0]), 'a', encoding='utf-8') as file:
                file.write('\n'.join(lines) + '\n\n')
        except OSError as error:
            raise Mistake('%s: %s' % (words[0], error.strerror)) from None
        self.say('%s: %s added' % (words[0], here.words()))

    # ---- changing ----
    def do_mute(self, words):
        new = [one for one in self.debugger.breakpoints() if self.debugger.is_enabled(one)]
        for one in new:
            self.debugger.enable(one, False)
        self.muted += new
        if not new:
            raise Mistake('there are no breakpoints to disable')
        self.say('%s disabled; `glass unmute` enables them again' % breakpoints_text(len(new)))

    def do_unmute(self, words):
        if not self.muted:
            raise Mistake('nothing to enable: `glass mute` has disabled no breakpoints')
        for one in self.muted:
            self.debugger.enable(one, True)
        self.say('%s enabled' % breakpoints_text(len(self.muted)))
        self.muted = []

    def do_set(self, words):
        base, indices = split_slice(words[0]) if len(words) == 2 else ('', None)
        if indices is None:
            self.refuse_plain_variable(words)
            raise Mistake('which element, and to what? %s' % COMMANDS['set'][0])
        view = self.named(base)
        element = view.slice(indices)
        if element.size != 1 or ':' in indices or len(indices.split(',')) != len(view.axes):
            raise Mistake('%s names %d elements, one is wanted: give %d indices'
                          % (words[0], element.size, len(view.axes)))
        if self.debugger.is_core():
            raise Mistake('a core file is a photograph: it cannot be changed')
        _, data = parsed(words[1], view.element)
        before = element.element_at([0])
        self.debugger.write(element.address, data)
        shown = view.number_text if view.element.short == 'bool' else exact
        self.say('%s was %s, is %s' % (words[0], shown(before), shown(element.element_at([0]))))

    def refuse_plain_variable(self, words):
        name = words[0] if words else ''
        value = self.where.find_variable(name)[0] if re.match(r'^[a-z_]\w*$', name) else None
        if value is not None and not has_view(value.type_name()):
            raise Mistake('%s is a %s, not a tensor: the debugger sets it: gdb `set var %s = %s`, lldb `expr %s = %s`'
                          % ((name, value.type_name()) + (name, words[-1] if len(words) > 1 else '...') * 2))

    def do_limits(self, words):
        for word in words:
            name, equals, value = word.partition('=')
            limits.set(name, value if equals else '')
        for name, meaning in limits.MEANINGS.items():
            value = getattr(limits, name)
            self.say('  %-10s %10s  %s' % (name, value if value < 1 << 60 else 'none', meaning))

    def do_tour(self, words):
        self.tour.run(words)

    def do_help(self, words):
        if not words:
            self.say(HELP)
            return
        if words[0] not in COMMANDS:
            raise unknown_command(words[0])
        self.say(help_of(words[0]))


def help_of(name):
    usage, text = COMMANDS[name]
    return '%s\n%s' % (usage, '\n'.join(wrapped('  ', text)))


class StageCondition:
    """Whether `glass break` stops at a stage it has come to."""

    def __init__(self, glass, options):
        self.glass, self.options, self.hits, self.numbers = glass, options, 0, ''
        self.layer = whole(options['layer'], '--layer') if 'layer' in options else None
        self.hit = whole(options['hit'], '--hit') if 'hit' in options else None
        if self.hit is not None and self.hit < 1:
            raise Mistake('--hit %d: the first time is 1' % self.hit)
        if 'if' in options:
            expressions.check(options['if'])
        self.chosen = [(name, whole(options[name], '--' + name)) for name in ('head', 'position') if name in options]
        self.seq = None
        if 'seq' in options:
            match = re.match(r'^(>=|<=|>|<|=|==)?(\d+)$', options['seq'])
            if not match:
                raise Mistake('--seq: expected a number or ">=N", got %s' % options['seq'])
            self.seq = (match.group(1) or '==', int(match.group(2)))

    def check(self, stage, lines):
        """Refuses what can never be so, as far as it is known now."""
        self.glass.check_layer(stage, lines, self.layer)
        row = self.glass.where.source().row(stage)
        for option, number_of in self.chosen:
            if row is None:
                continue
            axis = next((axis for axis in CHOSEN_AXES[option] if axis in row.axes.strip('[]').split(', ')), None)
            if axis is None:
                raise Mistake('--%s: %s %s has no axis %s' % (option, stage, row.axes, CHOSEN_AXES[option][0]))
            count = self.glass.where.config_number(COUNTED_BY[axis]) if axis in COUNTED_BY else None
            if count and not -count <= number_of < count:
                raise Mistake('--%s %d is not in 0..%d of axis %s' % (option, number_of, count - 1, axis))

    def text(self):
        words = ['%s %s' % (name, self.options[name]) for name in ('layer', 'seq', 'hit', 'if')
                 if name in self.options]
        text = (', only ' + ', '.join(words)) if words else ''
        if self.chosen:
            text += ', shows ' + ' '.join('%s %d' % pair for pair in self.chosen)
        return text

    def __call__(self, line):
        if self.layer is not None and self.glass.layer_at(line) != self.layer:
            return False
        if self.seq is not None and not self.seq_fits():
            return False
        if 'if' in self.options and not self.is_true():
            return False
        self.hits += 1
        if self.hit is not None and self.hits != self.hit:
            return False
        if self.chosen:
            self.print_chosen()
        return True

    def view(self):
        here = self.glass.where.here()
        return view_of(here.value(), here.at.stage)

    def seq_fits(self):
        sign, wanted = self.seq
        for axis in self.view().axes:
            if axis.name in ('seq', 'query'):
                size = axis.size
                return {'==': size == wanted, '=': size == wanted, '>=': size >= wanted, '<=': size <= wanted,
                        '>': size > wanted, '<': size < wanted}[sign]
        return False

    def is_true(self):
        try:
            return self.glass.is_true(self.options['if'])
        except (Mistake, Garbage) as error:
            self.glass.say('--if %s cannot be decided here: %s' % (self.options['if'], error))
            return True

    def print_chosen(self):
        try:
            view = self.view()
            indices = [self.index_of(axis) for axis in view.axes]
            self.glass.print_rows(view.slice(', '.join(indices)) if set(indices) != {':'} else view)
        except (Mistake, Garbage) as error:
            self.glass.say('glass: breakpoint %s: %s' % (self.numbers, error))

    def index_of(self, axis):
        """What was chosen of an axis, ':' if nothing. Positions are those in the text: a decode step has the newest."""
        for option, chosen in self.chosen:
            if axis.name not in CHOSEN_AXES[option]:
                continue
            first = self.glass.where.first_position(axis) if option == 'position' and chosen >= 0 else 0
            if not -axis.size <= chosen - first < axis.size or chosen < first and chosen >= 0:
                held = '%d' % first if axis.size == 1 else '%d..%d' % (first, first + axis.size - 1)
                raise Mistake('--%s %d: %s' % (option, chosen, 'this pass has position %s only' % held
                                               if option == 'position' else 'axis %s has %s only' % (axis.name, held)))
            return str(chosen - first)
        return ':'


def how_many_of(view, kind):
    """'992 of 1000 are -inf'"""
    statistics, complete = view.statistics(limits.statistics)
    counts = [(statistics.minus_inf, '-inf'), (statistics.plus_inf, '+inf')]
    if kind == 'nan':
        counts = [(statistics.nan, 'NaN')]
    text = ' and '.join('%d of %d %s %s' % (count, statistics.count, 'is' if count == 1 else 'are', what)
                        for count, what in counts if count)
    return text if complete else (text or 'few') + ' of those looked at'


def breakpoints_text(count):
    return '%d breakpoint%s' % (count, '' if count == 1 else 's')


class Effort:
    """How much `glass find` may do: blocks of which a glance tells that nothing is in there cost little."""
    GLANCE, LOOK = 1, 16

    def __init__(self):
        self.left = limits.statistics * self.LOOK

    def spend(self, elements, cost):
        self.left -= elements * cost


def find_places(view, kind, effort=None, most=6):
    """(places, elements looked at): the first places as '(0, 3, 2)'; of rows of equal numbers '(0, 3, :)'."""
    effort = effort or Effort()
    if not view.size or (kind == 'constant' and view.shape[-1] < 2) or (kind != 'constant' and not view.element.floating):
        return [], view.size
    columns = view.shape[-1]
    numbers = constant_rows(view, effort) if kind == 'constant' else not_finite(view, kind, effort)
    places = []
    for number, hit in numbers:
        if not hit:
            return places, number
        row, last = divmod(number, columns)
        index = [str(axis.first + i * axis.step) for axis, i in zip(view.axes, view.row_index(row) + [last])]
        places.append('(%s)' % ', '.join(index[:-1] + [':'] if kind == 'constant' else index))
        if len(places) == most:
            break
    return places, view.size


def not_finite(view, kind, effort):
    """(number of an element, True) for each NaN or infinity, (number, False) where the effort ends."""
    size, first = view.element.bytes, 0
    wanted = (lambda x: x != x) if kind == 'nan' else (lambda x: abs(x) == float('inf'))
    harmless = bytes(top for top in range(256) if (top & (0x7C if view.element.short == 'f16' else 0x7F))
                     != (0x7C if view.element.short == 'f16' else 0x7F))
    for block in view.blocks():
        if effort.left <= 0:
            yield first, False
            return
        raw = block.packed()
        effort.spend(block.size, effort.GLANCE)
        if raw[size - 1::size].translate(None, harmless):  # the upper bits of an exponent that may be all ones
            effort.spend(block.size, effort.LOOK)
            for i in [i for i, x in enumerate(view.element.decode(raw)) if wanted(x)]:
                yield first + i, True
        first += block.size


def constant_rows(view, effort):
    """(number of its first element, True) for each row of equal numbers, (number, False) where the effort ends."""
    columns, size, first, left = view.shape[-1], view.element.bytes, 0, b''
    if columns > BLOCK:
        for row in range(view.row_count()):
            if effort.left <= 0:
                yield row * columns, False
                return
            if is_constant(view.with_axes(view.axes[-1:], view.row_address(view.row_index(row))), effort):
                yield row * columns, True
        return
    for block in view.blocks():
        if effort.left <= 0:
            yield first, False
            return
        effort.spend(block.size, effort.LOOK)
        left += block.packed()
        rows = len(left) // size // columns
        values, left = view.element.decode(left[:rows * columns * size]), left[rows * columns * size:]
        for row in [row for row, (x, y) in enumerate(zip(values[::columns], values[1::columns])) if x == y]:
            if values[row * columns:(row + 1) * columns].count(values[row * columns]) == columns:
                yield first + row * columns, True
        first += rows * columns


def is_constant(row, effort):
    number = row.element_at([0])
    for values in row.arrays_in_order():
        effort.spend(len(values), effort.LOOK)
        if values.count(number) != len(values):
            return False
    return True


def wrapped(prefix, text, width=100):
    """Lines of at most so many columns, the first after the prefix. Chinese breaks between any two characters, but not
    before punctuation."""
    line, begin = prefix, ' ' * text_width(prefix)
    for piece in re.findall(r'\s*(?:[\u2e80-\uffef]|[^\s\u2e80-\uffef]+)[，。；：？！、）”]*', text):
        if text_width(line) + text_width(piece) > width and line.strip():
            yield line.rstrip()
            line = begin
        line += piece.lstrip() if line in (prefix, begin) else piece
    yield line.rstrip()


def text_width(text):
    return sum(2 if unicodedata.east_asian_width(letter) in 'WF' else 1 for letter in text)
