"""glassbox in lldb: printers for tensors, stepping rules, the commands `glass ...`.

    (lldb) command script import include/glassbox/debugger/glassbox_lldb.py
    (lldb) glass help

Reads memory only and never runs a function of the program: it works alike on a core file and on a remote one.
"""
import contextlib
import ctypes
import glob
import os
import re
import signal
import sys
import textwrap
import threading

try:
    import lldb
except ImportError:  # another Python of the same version comes first in PATH
    lldb = None

_completed = False


def _complete_lldb():
    """Debian 12's lldb does not find its Python module and makes an empty one, or none. The whole one is taken from
    where it lies, and lldb told so."""
    global lldb, _completed
    version = 'python%d.%d' % sys.version_info[:2]
    for folder in sorted(glob.glob('/usr/lib/llvm-*/lib/%s/dist-packages' % version), reverse=True):
        number = re.search(r'llvm-(\d+)', folder).group(1)
        if not os.path.exists(os.path.join(folder, 'lldb', '__init__.py')) or not _is_loaded('liblldb-%s.so' % number):
            continue
        sys.path.insert(0, folder)
        sys.path.append('/usr/lib/python3/dist-packages')  # another Python's library does not look there for `six`
        for name in [name for name in sys.modules if name.split('.')[0] == 'lldb']:
            del sys.modules[name]
        try:
            import lldb
        except ImportError:
            lldb = None
            return
        import lldb.embedded_interpreter
        import lldb.formatters.cpp.gnu_libstdcpp  # as lldb does where it finds its module: how std:: is shown
        main = sys.modules['__main__']
        main.lldb = lldb
        main.run_one_line = lldb.embedded_interpreter.run_one_line
        main.run_python_interpreter = lldb.embedded_interpreter.run_python_interpreter
        _completed = True
        return


def _is_loaded(library):
    with open('/proc/self/maps', encoding='utf-8', errors='replace') as maps:
        return library in maps.read()


if not hasattr(lldb, 'SBDebugger'):
    _complete_lldb()

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


LARGE_READ = 1 << 16  # bytes; lldb-server takes two seconds for the 40 MB of ten million floats


def _read_directly(process, address, count):
    """From /proc, at the speed of memory; None where the process is not on this machine, as far as can be told:
    the same program must run there under that number, and both ends of the memory must be equal."""
    target = process.GetTarget()
    try:
        if os.readlink('/proc/%d/exe' % process.GetProcessID()) != target.GetExecutable().fullpath:
            return None
        with open('/proc/%d/mem' % process.GetProcessID(), 'rb', 0) as memory:
            memory.seek(address)
            parts, left = [], count
            while left:
                part = memory.read(left)
                if not part:
                    return None
                parts.append(part)
                left -= len(part)
    except (OSError, ValueError, OverflowError):
        return None
    data, error = b''.join(parts), lldb.SBError()
    for offset in (0, count - 64):
        if process.ReadMemory(address + offset, 64, error) != data[offset:offset + 64]:
            return None
    return data


def _reader(process):
    def read(address, count):
        if count >= LARGE_READ:
            data = _read_directly(process, address, count)
            if data is not None:
                return data
        error = lldb.SBError()
        data = process.ReadMemory(address % (1 << 64), count, error)
        if error.Fail() or data is None or len(data) != count:
            raise Garbage('not readable: nothing lies at 0x%x (freed, or never set?)' % (address % (1 << 64)))
        return data
    return read


class Value:
    """An lldb.SBValue as value_views wants it."""

    def __init__(self, value):
        value = value.GetNonSyntheticValue()
        if value.GetType().GetCanonicalType().IsReferenceType():
            value = value.Dereference().GetNonSyntheticValue()
        self.value = value

    @property
    def read(self):
        return _reader(self.value.GetProcess())

    def type_name(self):
        return self.value.GetType().GetCanonicalType().GetUnqualifiedType().GetName() or ''

    def is_pointer(self):
        return self.value.GetType().GetCanonicalType().IsPointerType()

    def field(self, name, depth=8):
        member = self.value.GetChildMemberWithName(name)
        if member.IsValid():
            return Value(member)
        if depth:  # not every base class is searched by lldb itself
            for i in range(self.value.GetType().GetCanonicalType().GetNumberOfDirectBaseClasses()):
                found = Value(self.value.GetChildAtIndex(i)).field(name, depth - 1)
                if found is not None:
                    return found
        return None

    def field_behind(self, name):
        """A member of what this pointer points to."""
        return self.target().field(name)

    def index(self, i):
        if self.type_name().startswith('std::'):  # lldb 14 cannot make out the member of a std::array of g++'s
            element = self.value.GetType().GetCanonicalType().GetTemplateArgumentType(0)
            return Value(self.value.CreateValueFromAddress('[%d]' % i, self.address() + i * element.GetByteSize(), element))
        if not self.is_pointer():
            return Value(self.value.GetChildAtIndex(i))
        element = self.value.GetType().GetCanonicalType().GetPointeeType()  # the children of a pointer are the members
        return Value(self.value.CreateValueFromAddress('[%d]' % i, self.integer() + i * element.GetByteSize(), element))

    def integer(self):
        error = lldb.SBError()
        if self.value.GetType().GetCanonicalType().IsPointerType():
            number = self.value.GetValueAsUnsigned(error, 0)
        else:
            number = self.value.GetValueAsSigned(error, 0)
        if error.Fail():
            raise Garbage('not readable: %s' % error.GetCString())
        return number

    def address(self):
        return self.value.GetLoadAddress()

    def byte_size(self):
        return self.value.GetType().GetByteSize()

    def target(self):
        return Value(self.value.Dereference())

    def text(self):
        return self.value.GetValue() or self.value.GetSummary() or str(self.value)


# ---- printers ----
def unfinished_line(value):
    """The line that makes this local variable, if the program has not got past it; else None. Until then the
    memory holds what an earlier function left there, often a tensor that looks sound."""
    if value.GetValueType() != lldb.eValueTypeVariableLocal:
        return None
    declaration = value.GetDeclaration()
    entry = value.GetFrame().GetLineEntry()
    if not declaration.IsValid() or declaration.GetFileSpec().GetFilename() != entry.GetFileSpec().GetFilename():
        return None
    line = declaration.GetLine()
    if entry.GetLine() <= line or entry.GetLine() <= stage_source.statement_end(entry.GetFileSpec().fullpath, line):
        return line
    return None


def summary(value, _dictionary=None):
    try:
        line = unfinished_line(value.GetNonSyntheticValue())
        if line:
            return '<not computed yet: line %d makes it>' % line
        return value_views.summary(Value(value))
    except (AttributeError, OverflowError, RecursionError, SystemError) as error:
        return '<not readable: %s>' % error


def row_summary(value, _dictionary=None):
    """A row of numbers in one line: lldb gives every number a line of its own."""
    try:
        raw = value.GetNonSyntheticValue()
        array_type = raw.GetType().GetCanonicalType()
        element = value_views.element_of(array_type.GetArrayElementType().GetCanonicalType().GetName())
        error, data = lldb.SBError(), raw.GetData()
        numbers = data.ReadRawData(error, 0, data.GetByteSize())
        if error.Fail() or not numbers:
            raise Garbage('not readable')

        def read(address, count):  # an address of 0 would mean: no memory
            return numbers[address - 1:address - 1 + count]
        view = value_views.ArrayView.dense(read, 1, element, [('', len(numbers) // element.bytes)])
        return view.row_text([])
    except (Garbage, AttributeError, OverflowError) as error:
        return '<%s>' % error


def vector_summary(value, _dictionary=None):
    try:
        line = unfinished_line(value.GetNonSyntheticValue())
        if line:
            return '<not computed yet: line %d makes it>' % line
        return 'size=%d' % len(value_views.elements_of(Value(value)))
    except (Garbage, AttributeError, OverflowError, RecursionError, SystemError) as error:
        return '<%s>' % error


def string_summary(value, _dictionary=None):
    try:
        raw = Value(value)
        text = value_views.read_string(raw.read, raw.address())
        return '"%s"' % text.replace('\\', '\\\\').replace('"', '\\"').replace('\n', '\\n')
    except (Garbage, AttributeError, OverflowError, RecursionError, SystemError, TypeError) as error:
        return '<%s>' % error


class Elements:
    """The elements of a std::vector as children; none where it is garbage."""

    def __init__(self, value, _dictionary=None):
        self.value = value
        self.update()

    def update(self):
        self.addresses, self.type = (), None
        try:
            raw = Value(self.value)
            if unfinished_line(self.value.GetNonSyntheticValue()) is None:
                self.addresses = value_views.elements_of(raw)
                self.type = value_views.vector_begin(raw).value.GetType().GetPointeeType()
        except (Garbage, AttributeError, OverflowError, RecursionError, SystemError):
            self.addresses = ()
        return False

    def has_children(self):
        return len(self.addresses) > 0

    def num_children(self):
        return len(self.addresses)

    def get_child_index(self, name):
        digits = name.strip('[]')
        return int(digits) if digits.isdigit() else -1

    def get_child_at_index(self, i):
        if not 0 <= i < len(self.addresses):
            return None
        return self.value.CreateValueFromAddress('[%d]' % i, self.addresses[i], self.type)


class Rows:
    """The first rows of a tensor as children."""

    def __init__(self, value, _dictionary=None):
        self.value = value
        self.update()

    def update(self):
        self.view, self.count, self.more = None, 0, 0
        try:
            if unfinished_line(self.value.GetNonSyntheticValue()) is None:
                self.view = value_views.view_of(Value(self.value))
                self.count = min(self.view.row_count(), glass_commands.limits.rows) if self.view.size else 0
                self.more = self.view.row_count() - self.count if self.view.size else 0
        except (Garbage, AttributeError, OverflowError, RecursionError, SystemError):
            pass
        return False

    def has_children(self):
        return self.count > 0

    def num_children(self):
        return self.count + (1 if self.more else 0)

    def get_child_index(self, name):
        return next((i for i in range(self.num_children()) if self.label(i) == name), -1)

    def label(self, i):
        if i == self.count:
            return '[...]'
        return self.view.row_label(self.view.row_index(i)) if len(self.view.axes) > 1 else '[:]'

    def get_child_at_index(self, i):
        if i == self.count and self.more:
            return self.text_child(self.label(i), '%d more row%s' % (self.more, '' if self.more == 1 else 's'))
        if not 0 <= i < self.count:
            return None
        element_type = self.element_type()
        index = self.view.row_index(i)
        if element_type is None:
            return None
        array_type = element_type.GetArrayType(self.view.shape[-1])
        if self.view.axes[-1].stride == self.view.element.bytes or self.view.shape[-1] == 1:
            return self.value.CreateValueFromAddress(self.label(i), self.view.row_address(index), array_type)
        row = self.view.row(index)  # its numbers lie apart: a copy of them
        raw = b''.join(self.view.element.encode(number) for number in row)
        data = lldb.SBData()
        data.SetData(lldb.SBError(), raw, lldb.eByteOrderLittle, 8)
        return self.value.CreateValueFromData(self.label(i), data, array_type)

    def text_child(self, label, text):
        data, letters = lldb.SBData(), text.encode() + b'\0'
        data.SetData(lldb.SBError(), letters, lldb.eByteOrderLittle, 8)
        char = self.value.GetTarget().GetBasicType(lldb.eBasicTypeChar)
        return self.value.CreateValueFromData(label, data, char.GetArrayType(len(letters)))

    def element_type(self):
        target = self.value.GetTarget()
        basic = {'f32': lldb.eBasicTypeFloat, 'f64': lldb.eBasicTypeDouble, 'bool': lldb.eBasicTypeBool,
                 'i8': lldb.eBasicTypeSignedChar, 'u8': lldb.eBasicTypeUnsignedChar,
                 'i16': lldb.eBasicTypeShort, 'u16': lldb.eBasicTypeUnsignedShort,
                 'i32': lldb.eBasicTypeInt, 'u32': lldb.eBasicTypeUnsignedInt,
                 'i64': lldb.eBasicTypeLong, 'u64': lldb.eBasicTypeUnsignedLong}
        short = self.view.element.short
        if short in basic:
            return target.GetBasicType(basic[short])
        for name in {'f16': ('glassbox::Half', 'Eigen::half'), 'bf16': ('glassbox::BFloat16', 'Eigen::bfloat16')}[short]:
            found = target.FindFirstType(name)
            if found.IsValid():
                return found
        return None


# ---- what the commands need ----
class Frame:
    def __init__(self, frame):
        self.frame, self.number = frame, frame.GetFrameID()
        entry = frame.GetLineEntry()
        self.file = entry.GetFileSpec().fullpath or ''
        self.line = entry.GetLine()
        self.function = function_name(frame.GetFunctionName() or '')
        start = frame.GetFunction().GetStartAddress().GetLineEntry()
        self.function_line = start.GetLine() if start.IsValid() else 0

    def variable(self, name):
        """A variable or a member of *this; None where there is none."""
        found = self.frame.FindVariable(name)
        if found.IsValid():
            return Value(found)
        this = self.frame.FindVariable('this')
        member = this.GetChildMemberWithName(name) if this.IsValid() else None
        return Value(member) if member is not None and member.IsValid() else None

    def is_unfinished(self, name):
        """Whether the variable of that name is not computed yet."""
        found = self.frame.FindVariable(name)
        return found.IsValid() and unfinished_line(found.GetNonSyntheticValue()) is not None

    def locals(self):
        """(name, value) of the arguments and of the variables that are complete."""
        for value in self.frame.GetVariables(True, True, False, True):
            if unfinished_line(value.GetNonSyntheticValue()) is None:
                yield value.GetName(), Value(value)


class Debugger:
    name = 'lldb'

    def __init__(self, debugger):
        self.debugger = debugger
        self.verdicts = {}  # (thread, number of a breakpoint) -> what was decided at this stop
        self.wanted = {}  # number of a breakpoint -> (place, what decides whether it stops)
        self.result = None

    def print(self, text):
        if self.result is not None:
            self.result.AppendMessage(text)
        else:
            print(text)

    def colour(self):
        return self.debugger.GetUseColor() and os.isatty(1)

    def target(self):
        return self.debugger.GetSelectedTarget()

    def process(self):
        return self.target().GetProcess()

    def read(self, address, count):
        return _reader(self.process())(address, count)

    def write(self, address, data):
        error = lldb.SBError()
        self.process().WriteMemory(address, data, error)
        if error.Fail():
            raise Mistake('cannot write at 0x%x: %s' % (address, error.GetCString()))

    def evaluate(self, text, frame=None):
        """By path first, then as an expression that lldb interprets itself: nothing runs in the program."""
        frame = (frame or self.selected_frame()).frame
        for path in (text, 'this->' + text):
            found = frame.GetValueForVariablePath(path)
            if found.IsValid() and found.GetError().Success():
                return Value(found)
        options = lldb.SBExpressionOptions()
        options.SetAllowJIT(False)
        found = frame.EvaluateExpression(text, options)
        if not found.IsValid() or found.GetError().Fail():
            raise Mistake('%s: %s' % (text, (found.GetError().GetCString() or 'not known here').strip()))
        return Value(found)

    def is_running(self):
        return self.process().IsValid() and self.process().GetState() in (lldb.eStateStopped, lldb.eStateCrashed)

    def can_run(self):
        """None, or why the program cannot be run from its beginning."""
        if self.is_core():
            return 'a core file is a photograph: it cannot run'
        if self.is_remote():
            return 'a remote program cannot be started again from here'
        return None

    def is_remote(self):
        """lldb speaks to every program through a server, and does not tell whose. Its own server is its child."""
        if not self.process().IsValid() or not self.is_running():
            return False
        if self.debugger.GetSelectedPlatform().GetName() != 'host':
            return True
        server = self.process().GetProcessInfo().GetParentProcessID()
        try:
            with open('/proc/%d/stat' % server, encoding='utf-8') as file:
                return int(file.read().rpartition(')')[2].split()[1]) != os.getpid()
        except OSError:
            return os.path.exists('/proc/self/stat')  # no such process on this Linux; other systems do not tell

    def program(self):
        """The name of the program's file."""
        return self.target().GetExecutable().GetFilename() or ''

    def is_core(self):
        return self.process().IsValid() and 'core' in (self.process().GetPluginName() or '')

    def thread(self):
        return self.process().GetSelectedThread()

    def frames(self):
        return [Frame(frame) for frame in self.thread()][:200] if self.is_running() else []

    def selected_frame(self):
        frame = self.thread().GetSelectedFrame() if self.is_running() else None
        if frame is None or not frame.IsValid():
            raise Mistake('the program is not running: there is nothing to look at yet')
        return Frame(frame)

    def headers(self):
        """The folder of the headers the program was compiled from."""
        for context in self.target().FindFunctions('glassbox::stage_state'):
            entry = context.GetFunction().GetStartAddress().GetLineEntry()
            if entry.IsValid():
                return entry.GetFileSpec().GetDirectory() or ''
        return ''

    def stage_state(self):
        """That of the selected thread: lldb cannot read thread_local data, so only where it passed a stage last."""
        state = self.latest_state()
        if state is not None and not self._is_of_selected_thread(state.address()):
            raise Mistake('another thread has passed a stage last: what this one has passed cannot be told here')
        return state

    def passed_last(self):
        """Whether the selected thread passed a stage last."""
        state = self.latest_state()
        return state is None or self._is_of_selected_thread(state.address())

    def _is_of_selected_thread(self, address):
        """A thread's own data lie in the memory of its stack; only the first thread has them elsewhere."""
        process = self.process()
        threads = list(process)
        if len(threads) == 1:
            return True
        for thread in threads:
            region = lldb.SBMemoryRegionInfo()
            if process.GetMemoryRegionInfo(thread.GetFrameAtIndex(0).GetSP(), region).Success() \
                    and region.GetRegionBase() <= address < region.GetRegionEnd():
                return thread.GetThreadID() == self.thread().GetThreadID()
        return self.thread().GetThreadID() == process.GetProcessID()

    def global_variable(self, name):
        """One of the program, or of a file of it; None where there is none."""
        found = self.target().FindFirstGlobalVariable(name)
        return Value(found) if found.IsValid() else None

    def latest_state(self):
        """That of the thread that passed a stage last."""
        pointer = self.target().FindFirstGlobalVariable('glassbox::latest_stage_state')
        if not pointer.IsValid():
            raise Mistake('the program has no glassbox::latest_stage_state: lldb cannot read thread_local data')
        pointer = value_views.plain_pointer(Value(pointer))
        return pointer.target() if pointer.integer() else None

    # -- running. In synchronous mode Continue() returns when the program has stopped. --
    def has_code(self, place):
        """Whether the program holds the line."""
        file = lldb.SBFileSpec(os.path.basename(place.file), False)  # no breakpoint: a core file takes none
        headers = self.headers()
        for unit in (unit for module in self.target().module_iter() for unit in module.compile_unit_iter()):
            found = unit.FindLineEntryIndex(0, place.line, file, True)
            while found != lldb.LLDB_INVALID_INDEX32:
                if self._is_at(unit.GetLineEntryAtIndex(found), place, headers):
                    return True
                found = unit.FindLineEntryIndex(found + 1, place.line, file, True)
        return False

    @staticmethod
    def _is_at(entry, place, headers):
        """Whether code is that of a stage line, not that of another file of the same name."""
        return entry.GetLine() == place.line and stage_source.is_header(entry.GetFileSpec().fullpath or '', place, headers)

    def set_stops(self, places, wanted, keep):  # pylint: disable=unused-argument
        """A stop at each of the lines that the program holds."""
        stops, headers = [], self.headers()
        for place in places:
            stop = self.target().BreakpointCreateByLocation(os.path.basename(place.file), place.line)
            others, functions = [], set()
            for location in sorted(stop, key=lambda one: one.GetAddress().GetFileAddress()):
                function = location.GetAddress().GetFunction().GetStartAddress().GetFileAddress()
                if function in functions or not self._is_at(location.GetAddress().GetLineEntry(), place, headers):
                    others.append(location)
                else:
                    functions.add(function)  # one place of the line is enough
            for location in others:
                location.SetEnabled(False)
            if len(others) == stop.GetNumLocations():
                self.target().BreakpointDelete(stop.GetID())
                continue
            self.wanted[stop.GetID()] = (place, wanted)
            stop.SetScriptCallbackFunction('%s.stop_wanted' % __name__)
            stops.append(stop)
        return stops

    def places(self, stops):
        return [self.wanted[stop.GetID()][0] for stop in stops]

    def numbers(self, stops):
        return [stop.GetID() for stop in stops]

    def remove_stops(self, stops):
        for stop in stops:
            self.wanted.pop(stop.GetID(), None)
            self.target().BreakpointDelete(stop.GetID())

    def _run(self, start):
        was_asynchronous = self.debugger.GetAsync()
        self.debugger.SetAsync(False)
        try:
            with self._interruptible() as interrupted:
                self.verdicts.clear()
                start()
                while self.is_running() and not interrupted.is_set() and not self._stop_is_wanted():
                    self.verdicts.clear()
                    self.process().Continue()
        finally:
            self.debugger.SetAsync(was_asynchronous)

    @contextlib.contextmanager
    def _interruptible(self):
        """Ctrl-C stops the program: lldb itself does not mind it while a command runs. Python puts the signal into a pipe,
        and a thread tells the program, for this one waits inside lldb."""
        interrupted = threading.Event()
        if threading.current_thread() is not threading.main_thread():
            yield interrupted  # an IDE, which has a button
            return
        reader, writer = os.pipe()
        os.set_blocking(writer, False)

        def watch():
            while os.read(reader, 1) == bytes([signal.SIGINT]):
                interrupted.set()
                self.process().SendAsyncInterrupt()
        watcher = threading.Thread(target=watch, daemon=True)
        sigaction, lldbs_own = ctypes.CDLL(None).sigaction, ctypes.create_string_buffer(1024)
        sigaction(int(signal.SIGINT), None, lldbs_own)
        signal.signal(signal.SIGINT, lambda _signal, _frame: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        watcher.start()
        try:
            yield interrupted
        finally:
            signal.set_wakeup_fd(-1)
            sigaction(int(signal.SIGINT), lldbs_own, None)
            os.write(writer, b'\0')
            watcher.join()
            os.close(reader)
            os.close(writer)

    def decide(self, thread, number):
        """What the breakpoint that a thread has come to says; it is asked once at each stop, since it counts."""
        key = (thread.GetThreadID(), number)
        if key not in self.verdicts:
            place, wanted = self.wanted[number]
            self.process().SetSelectedThread(thread)
            self.verdicts[key] = wanted(place)
        return self.verdicts[key]

    def _stop_is_wanted(self):
        """False only where each breakpoint that was hit is one of ours and declines."""
        stopped = [thread for thread in self.process() if thread.GetStopReason() == lldb.eStopReasonBreakpoint]
        for thread in stopped:
            numbers = [thread.GetStopReasonDataAtIndex(i) for i in range(0, thread.GetStopReasonDataCount(), 2)]
            if any([number not in self.wanted or self.decide(thread, number) for number in numbers]):
                self.process().SetSelectedThread(thread)
                return True
        return not stopped or self.thread().GetStopReason() not in (lldb.eStopReasonBreakpoint, lldb.eStopReasonNone)

    def _launch(self):
        result = lldb.SBCommandReturnObject()
        self.debugger.GetCommandInterpreter().HandleCommand('process launch', result)
        if not result.Succeeded():
            raise Mistake('the program could not be started: %s' % (result.GetError() or '').strip())

    def resume(self):
        self._run(self.process().Continue if self.is_running() else self._launch)

    def restart(self):
        if self.process().IsValid() and self.is_running():
            self.process().Kill()
        self._run(self._launch)

    def has_stage_function(self):
        return any(is_stage_function(function_name(one.GetFunction().GetName() or ''))
                   for one in self.target().FindFunctions('stage'))

    def skip_stages(self, count):
        """A breakpoint on stage() itself that stops after `count` of them."""
        stop = self.target().BreakpointCreateByName('glassbox::stage')
        stop.SetIgnoreCount(count)
        self.wanted[stop.GetID()] = (None, lambda _place: True)
        return [stop]

    def breakpoints(self):
        return [self.target().GetBreakpointAtIndex(i) for i in range(self.target().GetNumBreakpoints())]

    def is_enabled(self, one):
        return one.IsEnabled()

    def enable(self, one, enabled):
        if one.IsValid():
            one.SetEnabled(enabled)

    def source_line(self, frame):
        lines = stage_source.lines_of_file(frame.file)
        return lines[frame.line - 1].strip() if 0 < frame.line <= len(lines) else ''


_debuggers = {}


def _glass_of(debugger):
    key = debugger.GetID()
    if key not in _debuggers:
        _debuggers[key] = glass_commands.Glass(Debugger(debugger))
    return _debuggers[key]


def stop_wanted(frame, location, _arguments=None, _dictionary=None):
    """Called by lldb at the breakpoints of the commands: where it says False, lldb goes on without a word."""
    glass, number = _glass_of(frame.GetThread().GetProcess().GetTarget().GetDebugger()), location.GetBreakpoint().GetID()
    if number not in glass.debugger.wanted:
        return True
    glass.debugger.verdicts.pop((frame.GetThread().GetThreadID(), number), None)
    try:
        return glass.debugger.decide(frame.GetThread(), number)
    except (Mistake, Garbage) as error:
        glass.say('glass: breakpoint %d: %s' % (number, error))
        return True


class GlassCommand:
    def __init__(self, debugger, _dictionary):
        self.glass = _glass_of(debugger)

    def __call__(self, debugger, argument, _context, result):
        self.glass.debugger.result = result
        try:
            self.glass.run(argument)
        except (Mistake, Garbage) as error:
            result.SetError('glass: %s' % error)
        except (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
            result.SetError('glass: fault in the command itself: %r' % error)
        finally:
            self.glass.debugger.result = None

    def get_short_help(self):
        return 'See, step and check the tensors of a language model.'

    def get_long_help(self):
        return wrapped_help(glass_commands.HELP, self.glass.debugger.debugger.GetTerminalWidth())


def wrapped_help(text, width):
    """Lines that lldb need not wrap: it knows nothing of paragraphs and columns."""
    lines = []
    for paragraph in re.sub(r'(?<=\S)\n(?=\S)', ' ', text).split('\n'):
        column = re.match(r' *(?:\S+(?: \S+)* {2,})?', paragraph).end()  # where the second column begins
        lines += textwrap.wrap(paragraph, max(width, 60) - 2, subsequent_indent=' ' * column, break_long_words=False,
                               break_on_hyphens=False) or ['']
    return '\n'.join(lines)


class PrintCommand:
    """`p` as newer versions of lldb have it: a variable or a member by its path, as `v` shows it, anything else as an
    expression. lldb 14 puts every member behind a std::vector at a wrong place in an expression, and says nothing."""

    def __init__(self, debugger, _dictionary):
        self.debugger = debugger

    def __call__(self, debugger, argument, context, result):
        run = debugger.GetCommandInterpreter().HandleCommand
        printed = lldb.SBCommandReturnObject()
        if re.fullmatch(r'[*&]*[A-Za-z_]\w*((\.|->)[A-Za-z_]\w*|\[\d+\])*', argument.strip()):
            run('frame variable -- %s' % argument, context, printed)
        if not printed.Succeeded() or not printed.GetOutput():
            printed.Clear()
            run('expression -- %s' % argument, context, printed)
        result.PutCString((printed.GetOutput() or '').rstrip('\n'))
        if not printed.Succeeded():
            result.SetError((printed.GetError() or '').replace('error: ', '', 1).rstrip('\n'))

    def get_short_help(self):
        return 'Prints a variable (as `v` does) or the value of an expression.'


class StageStop:
    """GLASSBOX_BREAK stops inside stage(): the function that passes the stage is the one to look at."""

    def __init__(self, _target, _arguments, _dictionary):
        pass

    def handle_stop(self, context, stream):
        thread = context.GetThread()
        names = [function_name(frame.GetFunctionName() or '') for frame in thread] if thread.IsValid() else []
        if names and names[0] == 'glassbox::stop_debugger':
            passes = next((i + 1 for i, name in enumerate(names) if is_stage_function(name)), 0)
            thread.SetSelectedFrame(passes)
            frame = Frame(thread.GetFrameAtIndex(passes))
            stream.Print('glassbox: frame %d is where the stage is passed: %s:%d\n'
                         % (passes, os.path.basename(frame.file), frame.line))
        return True


def _obey_a_pipe(debugger):
    """Where lldb's commands come through a pipe, each waits for the one before it: lldb would read on while the program
    runs, and hand it the commands as its input. (Not under an IDE, whose server is another program.)"""
    try:
        lldb_alone = re.fullmatch(r'lldb(-\d+)?', os.path.basename(os.readlink('/proc/self/exe')))
    except OSError:
        return
    if lldb_alone and not os.isatty(0):
        debugger.SetAsync(False)
        debugger.HandleCommand('settings set target.input-path /dev/null')


def __lldb_init_module(debugger, _dictionary):
    if not hasattr(lldb, 'SBDebugger'):
        version = '%d.%d' % sys.version_info[:2]
        print('glassbox: this lldb does not find its Python module, and without it glassbox cannot be loaded. Start it as '
              'PATH=/usr/bin:$PATH PYTHONPATH=$(echo /usr/lib/llvm-*/lib/python%s/dist-packages) lldb PROGRAM, or set '
              'PYTHONPATH to what `lldb -P` prints. Its Python, %s, has its library in %s.'
              % (version, version, sys.prefix))
        return
    if _completed:
        _dictionary['lldb'] = lldb
        print('glassbox: lldb did not find its Python module, hence the errors above; it is complete now')
    module = __name__
    shown = r'^(const )?(glassbox::Tensor<.+>|glassbox::WeightMatrix|glassbox::StageRecord' \
            r'|Eigen::(Matrix|Array|Map|Ref|Block|VectorBlock|Transpose)<.+>)( &)?$'
    lazy = r'^(const )?Eigen::(Cwise.+|Product|Replicate|PartialReduxExpr|Select|Diagonal|Inverse|Solve|Reverse)<.+>$'
    scalar = r'^(const )?(glassbox::(Half|BFloat16)|Eigen::(half|bfloat16))$'
    rows = r'^(const )?(float|double|bool|(unsigned )?(long|int|short)|glassbox::Half|glassbox::BFloat16' \
           r'|Eigen::half|Eigen::bfloat16) ?\[[0-9]+\]$'
    vector = r'^(const )?std::(__debug::|__cxx1998::)?vector<([^b]|b[^o]).+>( &)?$'
    string = r'^(const )?(std::(__cxx11::)?(basic_string<char, .+>|string))( &)?$'
    for command in ('type summary add -e -x "%s" -F %s.vector_summary' % (vector, module),
                    'type synthetic add -x "%s" -l %s.Elements' % (vector, module),
                    'type summary add -x "%s" -F %s.string_summary' % (string, module),
                    'type summary add -e -p -x "%s" -F %s.summary' % (shown, module),
                    'type synthetic add -p -x "%s" -l %s.Rows' % (shown, module),
                    'type summary add -p -x "%s" -F %s.summary' % (lazy, module),
                    'type summary add -p -x "%s" -F %s.summary' % (scalar, module),
                    'type summary add -x "%s" -F %s.row_summary' % (rows, module)):
        debugger.HandleCommand(command + ' -w glassbox')
    debugger.HandleCommand('type category enable glassbox')
    # At a stop the place, without the arguments: `frame variable` shows the tensors.
    debugger.HandleCommand('settings set frame-format "frame #${frame.index}: ${function.name-without-args}'
                           '{ at ${line.file.basename}:${line.number}}\\n"')
    for rule in step_rules.lldb_rules():
        debugger.HandleCommand(rule)
    for name in ('glass', 'p', 'print'):  # where this file is read a second time
        debugger.GetCommandInterpreter().HandleCommand('command script delete %s' % name, lldb.SBCommandReturnObject())
    debugger.HandleCommand('command script add -c %s.GlassCommand glass' % module)
    version = re.search(r'version (\d+)', debugger.GetVersionString() or '')
    if version and int(version.group(1)) < 16:
        for name in ('p', 'print'):
            debugger.GetCommandInterpreter().HandleCommand('command unalias %s' % name, lldb.SBCommandReturnObject())
            debugger.HandleCommand('command script add -c %s.PrintCommand %s' % (module, name))
    _obey_a_pipe(debugger)
    hooks = lldb.SBCommandReturnObject()
    debugger.GetCommandInterpreter().HandleCommand('target stop-hook list', hooks)
    if '.StageStop' not in (hooks.GetOutput() or ''):
        debugger.GetCommandInterpreter().HandleCommand(
            'target stop-hook add -P %s.StageStop -n "glassbox::stop_debugger()"' % module,
            lldb.SBCommandReturnObject())  # without its message
