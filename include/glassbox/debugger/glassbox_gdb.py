"""glassbox in gdb: printers for tensors, stepping rules, the commands `glass ...`.

    (gdb) source include/glassbox/debugger/glassbox_gdb.py
    (gdb) help glass

Reads memory only and never runs a function of the program: it works alike on a core file and over gdbserver.
"""
import os
import re
import sys

import gdb
import gdb.printing

_here = os.path.dirname(os.path.abspath(__file__))
if _here not in sys.path:
    sys.path.insert(0, _here)
_writes_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # this folder is for headers
import glass_commands
import stage_source
import step_rules
import value_views
from tensor_view import Garbage, Mistake
from where import function_name, is_stage_function
sys.dont_write_bytecode = _writes_bytecode


def read_memory(address, count):
    try:
        return gdb.selected_inferior().read_memory(address, count)
    except (gdb.error, OverflowError):
        raise Garbage('not readable: nothing lies at 0x%x (freed, or never set?)' % (address % (1 << 64))) from None


OWN_DATA = 1 << 16  # bytes of a thread's own data at most


def _type_name(value_type):
    """As C++ writes it, also where gdb stands in a function of C and would say class in front."""
    plain = value_type.strip_typedefs().unqualified()
    return plain.name or str(plain)


def _evaluated(text):
    """An expression of C++, also where gdb stands in a function of C; nothing is called."""
    language, calls_were_allowed = gdb.parameter('language'), gdb.parameter('may-call-functions')
    gdb.execute('set may-call-functions off')
    gdb.execute('set language c++', to_string=True)
    try:
        value = gdb.parse_and_eval(text)
        if value.type.strip_typedefs().code not in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_ARRAY):
            value.fetch_lazy()
        return value
    finally:
        gdb.execute('set language %s' % language, to_string=True)
        gdb.execute('set may-call-functions %s' % ('on' if calls_were_allowed else 'off'))


class Value:
    """A gdb.Value as value_views wants it."""
    read = staticmethod(read_memory)

    def __init__(self, value):
        try:
            if value.type.strip_typedefs().code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
                value = value.referenced_value()
        except gdb.error as error:
            raise Garbage(str(error)) from None
        self.value = value

    def type_name(self):
        return _type_name(self.value.type)

    def is_pointer(self):
        return self.value.type.strip_typedefs().code == gdb.TYPE_CODE_PTR

    def field(self, name):
        try:
            return Value(self.value[name])
        except gdb.error:
            pass
        try:  # more than one base class may have it: the last then, as in a std::tuple its first element is
            bases = [one for one in self.value.type.strip_typedefs().fields() if one.is_base_class]
            found = (Value(self.value[one]).field(name) for one in reversed(bases))
            return next((one for one in found if one is not None), None)
        except (gdb.error, TypeError):
            return None

    def field_behind(self, name):
        """A member of what this pointer points to, by its offset: to follow a pointer to a polymorphic object, gdb
        looks up what class it really is, and complains where it cannot tell."""
        for member in self.value.type.strip_typedefs().target().strip_typedefs().fields():
            if member.name == name:
                address = self.integer() + member.bitpos // 8
                return Value(gdb.Value(address).cast(member.type.pointer()).dereference())
        return None

    def index(self, i):
        inside = self.field('_M_elems') or self.field('__elems_') if self.type_name().startswith('std::') else None
        return Value((inside or self).value[i])

    def integer(self):
        try:
            return int(self.value)
        except (gdb.error, OverflowError) as error:
            raise Garbage(str(error)) from None

    def address(self):
        return int(self.value.address)

    def byte_size(self):
        return self.value.type.sizeof

    def target(self):
        return Value(self.value.dereference())

    def text(self):
        try:
            return self.value.format_string(max_elements=50)
        except gdb.error as error:
            return '<%s>' % error


# ---- printers ----
def _symbols_in(frame):
    """Arguments and variables, innermost first; none where a function has no debug information."""
    try:
        block = frame.block()
    except RuntimeError:
        return
    while block is not None:
        yield from block
        if block.function is not None:
            return
        block = block.superblock


def _variables_in(frame):
    return (symbol for symbol in _symbols_in(frame) if symbol.is_variable and not _is_complete_always(symbol))


def _is_complete_always(symbol):
    return symbol.is_argument or symbol.addr_class == gdb.SYMBOL_LOC_STATIC


def unfinished_line(value):
    """The line that makes this local variable, if the program has not got past it; else None. Until then the
    memory holds what an earlier function left there, often a tensor that looks sound."""
    try:
        frame = gdb.selected_frame()
        line = frame.find_sal().line
        for symbol in _variables_in(frame):
            if symbol.symtab is None or symbol.line > line + 300 or not value.address:
                continue
            if line <= symbol.line or line <= stage_source.statement_end(symbol.symtab.fullname(), symbol.line):
                if Value(frame.read_var(symbol)).value.address == value.address:
                    return symbol.line
    except (gdb.error, RuntimeError, Garbage):
        pass
    return None


def _is_driven_by_ide():
    """Whether an IDE speaks to this gdb (gdb/MI). It shows a value that has rows below it as {...}, and a text as an
    array of letters."""
    try:
        with open('/proc/self/cmdline', 'rb') as file:
            words = file.read().decode('utf-8', 'replace').split('\0')
    except OSError:
        return False
    return any(re.match(r'--?(i|interp[a-z]*)=mi', word) for word in words) or any(
        re.fullmatch(r'--?(i|interp[a-z]*)', word) and following.startswith('mi') for word, following in zip(words, words[1:]))


_driven_by_ide = _is_driven_by_ide()


def _as_text(text):
    """A value that is shown as this text, whoever shows it: TextPrinter knows it by its odd type. Not made by a cast,
    for which gdb would put the letters into the program's memory."""
    letters = text.encode('utf-8')
    letter_type = gdb.lookup_type('char').volatile()
    return gdb.Value(letters, letter_type.array(len(letters) - 1))


class TextPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return bytes(int(letter) & 255 for letter in self._letters()).decode('utf-8', 'replace').rstrip('\0')

    def _letters(self):
        return (self.value[i] for i in range(self.value.type.range()[1] + 1))


class TensorPrinter:
    """A summary line, and rows below it."""

    def __init__(self, value):
        self.value = value
        self.unfinished = unfinished_line(value)

    def to_string(self):
        if self.unfinished:
            return '<not computed yet: line %d makes it>' % self.unfinished
        try:
            return value_views.summary(Value(self.value))
        except (gdb.error, OverflowError, RecursionError) as error:
            return '<%s>' % error

    def children(self):
        if _driven_by_ide:  # the only place where it shows our line
            yield '[tensor]', _as_text(self.to_string())
        for label, text in self.rows():
            yield label, _as_text(text) if _driven_by_ide else text

    def rows(self):
        if self.unfinished:
            return
        try:
            name = _type_name(self.value.type)
            if value_views.has_view(name) or value_views.RECORD.match(name):
                yield from value_views.view_of(Value(self.value)).rows_text()
        except (Garbage, gdb.error, OverflowError, RecursionError):
            return


def _lookup(value):
    value_type = value.type.strip_typedefs()
    if value_type.code == gdb.TYPE_CODE_ARRAY and str(value_type.target()) == 'volatile char':
        return TextPrinter(value)
    if value_type.code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
        value_type = value_type.target().strip_typedefs()
        if value_views.is_shown(_type_name(value_type)):
            try:
                return TensorPrinter(value.referenced_value())
            except gdb.error:
                return None
        return None
    if value_type.code == gdb.TYPE_CODE_STRUCT and value_views.is_shown(_type_name(value_type)):
        return TensorPrinter(value)
    return None


_lookup.name, _lookup.enabled = 'glassbox', True


# ---- what the commands need ----
class Frame:
    def __init__(self, frame, number):
        self.frame, self.number = frame, number
        sal = frame.find_sal()
        self.file = sal.symtab.fullname() if sal.symtab else ''
        self.line = sal.line
        self.function = function_name(frame.name() or '')
        function = frame.function()
        self.function_line = function.line if function else 0

    def variable(self, name):
        """A variable or a member of *this; None where there is none."""
        try:
            symbol = self._symbol(name)
            if symbol is not None:
                return Value(self.frame.read_var(symbol))
            this = self._symbol('this')
            return Value(self.frame.read_var(this).dereference()[name]) if this is not None else None
        except (ValueError, RuntimeError, Garbage):  # a gdb.error is a RuntimeError; one alone: no debug information
            return None

    def _symbol(self, name):
        """A variable of this function. (gdb by itself would find functions, and variables of a lambda's surroundings.)"""
        return next((symbol for symbol in _symbols_in(self.frame)
                     if symbol.name == name and (symbol.is_variable or symbol.is_argument)), None)

    def _is_complete(self, symbol):
        return _is_complete_always(symbol) or self.line > stage_source.statement_end(symbol.symtab.fullname(), symbol.line)

    def is_unfinished(self, name):
        """Whether the variable of that name is not computed yet."""
        symbol = self._symbol(name)
        return symbol is not None and not self._is_complete(symbol)

    def locals(self):
        """(name, value) of the arguments and of the variables that are complete, static ones left out."""
        seen = set()
        for symbol in _symbols_in(self.frame):
            if (symbol.is_variable or symbol.is_argument) and symbol.name not in seen \
                    and symbol.addr_class != gdb.SYMBOL_LOC_STATIC:
                seen.add(symbol.name)
                if self._is_complete(symbol):
                    yield symbol.name, Value(self.frame.read_var(symbol))


def _source_of(place):
    """'glassbox/attention.hpp'"""
    return os.path.join('glassbox', os.path.relpath(place.file, place.folder))


def _has_code(place):
    try:
        found = gdb.decode_line('%s:%d' % (_source_of(place), place.line))[1]
    except gdb.error:
        return False
    return any(one.line == place.line for one in found or ())


def _bytes_written():
    """By the program, into whatever file; 0 where that cannot be told."""
    try:
        with open('/proc/%d/io' % gdb.selected_inferior().pid, encoding='ascii') as file:
            return int(re.search(r'wchar: (\d+)', file.read()).group(1))
    except OSError:
        return 0


class StageStop(gdb.Breakpoint):
    """A stop on a stage's own line, where its value has just been completed."""

    def __init__(self, place, wanted, internal):
        super().__init__(source=_source_of(place), line=place.line, internal=internal)
        self.silent = internal
        self.place, self.wanted = place, wanted

    def stop(self):
        return self.wanted(self.place)


class Debugger:
    name = 'gdb'
    read = staticmethod(read_memory)

    def print(self, text):
        gdb.write(text + '\n')

    def colour(self):
        return bool(gdb.parameter('style enabled')) and os.isatty(1)

    def write(self, address, data):
        gdb.selected_inferior().write_memory(address, data)

    def evaluate(self, text, frame=None):
        """An expression in the selected frame, or in another one, which is not left selected."""
        selected = gdb.selected_frame() if frame is not None else None
        try:
            if frame is not None:
                frame.frame.select()
            return Value(_evaluated(text))
        except gdb.error as error:
            raise Mistake('%s: %s' % (text, error)) from None
        finally:
            if selected is not None:
                selected.select()

    def global_variable(self, name):
        """One of the program, or of a file of it; None where there is none."""
        for find in (gdb.lookup_global_symbol, gdb.lookup_static_symbol):
            symbol = find(name)
            if symbol is not None and symbol.is_variable:
                try:
                    return Value(symbol.value())
                except (gdb.error, TypeError, Garbage):
                    continue
        return None

    def is_running(self):
        return gdb.selected_inferior().pid != 0

    def can_run(self):
        """None, or why the program cannot be run from its beginning."""
        connection = getattr(gdb.selected_inferior(), 'connection', None)
        if connection is None or connection.type == 'native':
            return None
        return {'core': 'a core file is a photograph: it cannot run',
                'remote': 'a remote program cannot be started again from here'}.get(
                    connection.type, 'a program over "%s" cannot be started again from here' % connection.type)

    def program(self):
        """The name of the program's file."""
        return os.path.basename(gdb.current_progspace().filename or '')

    def is_core(self):
        connection = getattr(gdb.selected_inferior(), 'connection', None)
        return connection is not None and connection.type == 'core'

    def frames(self):
        found, frame = [], gdb.newest_frame() if self.is_running() else None
        while frame is not None and len(found) < 200:
            found.append(Frame(frame, len(found)))
            frame = frame.older()
        return found

    def selected_frame(self):
        try:
            return Frame(gdb.selected_frame(), gdb.selected_frame().level())
        except gdb.error:
            raise Mistake('the program is not running: there is nothing to look at yet') from None

    def headers(self):
        """The folder of the headers the program was compiled from."""
        try:
            symbol_tables = gdb.decode_line('glassbox::stage_state')[1]
            return os.path.dirname(symbol_tables[0].symtab.fullname())
        except (gdb.error, TypeError, AttributeError):
            return ''

    def stage_state(self):
        """That of the selected thread. Over the thread library where there is one (not on a core file)."""
        try:
            return Value(_evaluated("&'glassbox::stage_state()::state'")).target()
        except (gdb.error, Garbage):
            pass
        state = self.latest_state()
        if state is not None and not self._is_of_selected_thread(state.address()):
            raise Mistake('another thread has passed a stage last: what this one has passed cannot be told here')
        return state

    def latest_state(self):
        """That of the thread that passed a stage last."""
        try:
            pointer = value_views.plain_pointer(Value(_evaluated('glassbox::latest_stage_state')))
            return pointer.target() if pointer.integer() else None
        except (gdb.error, Garbage):
            raise Mistake('the program has no glassbox::stage_state() that can be read here') from None

    def passed_last(self):
        """Whether the selected thread passed a stage last."""
        try:
            latest, own = self.latest_state(), self.stage_state()
        except Mistake:
            return False
        return latest is None or latest.address() == own.address()

    @staticmethod
    def _is_of_selected_thread(address):
        """A thread's own data lie right below the address in its register fs_base."""
        if len(gdb.selected_inferior().threads()) == 1:
            return True
        try:
            return 0 <= int(gdb.newest_frame().read_register('fs_base')) - address < OWN_DATA
        except (gdb.error, ValueError):
            return False

    has_code = staticmethod(_has_code)

    def set_stops(self, places, wanted, keep):
        """A stop at each of the lines that the program holds."""
        return [StageStop(place, wanted, internal=not keep) for place in places if _has_code(place)]

    def places(self, stops):
        return [stop.place for stop in stops]

    def numbers(self, stops):
        return [stop.number for stop in stops]

    def remove_stops(self, stops):
        for stop in stops:
            if stop.is_valid():
                stop.delete()

    def resume(self):
        self._run('continue' if self.is_running() else 'run')

    def _run(self, command):
        """In a terminal, what glassbox says of the stop begins a line of its own, whatever the program wrote."""
        written = _bytes_written() if command == 'continue' else 0
        gdb.execute(command)
        if os.isatty(1) and self.is_running() and _bytes_written() != written:
            gdb.write('\n')

    def restart(self):
        with_confirm = gdb.parameter('confirm')
        gdb.execute('set confirm off')
        try:
            if self.is_running():
                gdb.execute('kill', to_string=True)
            self._run('run')
        finally:
            gdb.execute('set confirm %s' % ('on' if with_confirm else 'off'))

    def has_stage_function(self):
        try:
            return bool(gdb.decode_line('glassbox::stage')[1])
        except gdb.error:
            return False

    def skip_stages(self, count):
        """A breakpoint on stage() itself that stops after `count` of them."""
        stop = gdb.Breakpoint(function='glassbox::stage', internal=True)
        stop.silent = True
        stop.ignore_count = count
        return [stop]

    def breakpoints(self):
        return [one for one in gdb.breakpoints() if one.visible]

    def is_enabled(self, one):
        return one.enabled

    def enable(self, one, enabled):
        if one.is_valid():
            one.enabled = enabled

    def source_line(self, frame):
        lines = stage_source.lines_of_file(frame.file)
        return lines[frame.line - 1].strip() if 0 < frame.line <= len(lines) else ''


class GlassCommand(gdb.Command):
    """`glass` without a name, or `glass NAME`, which gdb knows as a command of its own: `help glass show` works."""

    def __init__(self, glass, name=''):
        self.glass, self.name = glass, name
        self.__doc__ = gdb_help(name) if name else glass_commands.INTRODUCTION + glass_commands.NOTATION
        super().__init__(('glass ' + name).strip(), gdb.COMMAND_DATA, prefix=not name)

    def invoke(self, argument, from_terminal):
        self.dont_repeat()
        calls_were_allowed = gdb.parameter('may-call-functions')
        gdb.execute('set may-call-functions off')
        try:
            self.glass.run('%s %s' % (self.name, argument))
        except (Mistake, Garbage) as error:
            raise gdb.GdbError('glass: %s' % error) from None
        except gdb.error as error:
            raise gdb.GdbError('glass: gdb says: %s' % error) from None
        except (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
            raise gdb.GdbError('glass: fault in the command itself: %r' % error) from None
        finally:
            gdb.execute('set may-call-functions %s' % ('on' if calls_were_allowed else 'off'))

    def complete(self, text, word):
        return self.glass.complete('%s %s' % (self.name, text), word)


def gdb_help(name):
    """What `help glass NAME` prints; the first line stands in gdb's list of all."""
    return '%s\n%s' % (glass_commands.short_help(name), glass_commands.help_of(name))


def _stopped(_event):
    """GLASSBOX_BREAK stops inside stage(): the function that passes the stage is the one to look at."""
    frame = gdb.newest_frame()
    if frame is None or function_name(frame.name() or '') != 'glassbox::stop_debugger':
        return
    while frame is not None and not is_stage_function(function_name(frame.name() or '')):
        frame = frame.older()
    if frame is not None and frame.older() is not None:
        frame.older().select()
        gdb.execute('frame')


def _install():
    gdb.printing.register_pretty_printer(None, _lookup, replace=True)
    gdb.execute('set print pretty on')  # a row a line
    gdb.execute('set print frame-arguments presence')  # at a stop the place; `info args` shows the tensors
    gdb.execute('set filename-display basename')
    present = gdb.execute('info skip', to_string=True)
    for rule in step_rules.gdb_rules():
        if ' %s\n' % rule not in present:  # not twice where this file is read twice
            gdb.execute('skip -rfu "%s"' % rule, to_string=True)
    glass = glass_commands.Glass(Debugger())
    for name in ['', *glass_commands.COMMANDS]:
        GlassCommand(glass, name)
    if hasattr(gdb, 'glassbox_stopped'):  # this file is read a second time
        gdb.events.stop.disconnect(gdb.glassbox_stopped)
    gdb.glassbox_stopped = _stopped
    gdb.events.stop.connect(_stopped)


_install()
