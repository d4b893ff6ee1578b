"""A scripted session of `step` and nothing else, from the model's forward on, in gdb or lldb: where does it lead?

Prints verdicts that do not change with the numbers of lines:
    steps.py whole       over the whole pass
    steps.py scores N    to the first stop on the line of the stage scores, in at most N stops
    steps.py outside N   N steps, or fewer to the end of main: does `step` stop where a reader has not written a line?
    steps.py into NAME N to the first stop in a function of that name, in at most N steps
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'include', 'glassbox', 'debugger'))
sys.dont_write_bytecode = True
import stage_source

MOST = 3000
stops_nowhere = False  # whether the walk goes on beyond the model's forward


def walk(step, goal):
    """`step()` -> (file, line, function) of the next stop, or None at the end of the pass."""
    source = stage_source.StageSource()
    stops, stages = [], []
    while len(stops) < MOST:
        stop = step()
        if stop is None:
            break
        stops.append(stop)
        text = stage_source.lines_of_file(stop[0])[stop[1] - 1] if os.path.exists(stop[0]) else ''
        match = stage_source.STATEMENT.match(text)
        if match and (not stages or stages[-1] != match.group(1)):
            stages.append(match.group(1))
        if match and match.group(1) == goal:
            break
    outside = [stop for stop in stops if '/include/glassbox/' not in stop[0] and not stop[0].endswith('flow.cpp')]
    print('stops outside glassbox and the program: %d' % len(outside))
    for stop in outside[:5]:
        print('  %s:%d %s' % stop)
    wanted = expected_stages(source)
    if goal:
        wanted = wanted[:wanted.index(goal) + 1]
    print('stages in the order of the data: %s' % ('yes' if stages == wanted else 'no, %s instead of %s' % (stages, wanted)))
    entered = {re.sub(r'<.*?>', '', stop[2]) for stop in stops}
    for function in ('glassbox::RMSNorm::forward', 'glassbox::scaled_scores', 'glassbox::apply_rotary_pos_emb',
                     'glassbox::make_causal_mask', 'glassbox::split_heads'):
        print('entered %s: %s' % (function, 'yes' if function in entered else 'no'))
    with open(os.environ.get('GLASSBOX_STEPS', os.devnull), 'w', encoding='utf-8') as file:
        file.writelines('%s:%d %s\n' % (os.path.basename(stop[0]), stop[1], stop[2]) for stop in stops)
    return len(stops)


def expected_stages(source, layers=2):
    names = [name for name in source.passed_names() if source.group(name) in ('input', 'layer', 'head')]
    before = [name for name in names if source.group(name) == 'input']
    layer = [name for name in names if source.group(name) == 'layer']
    after = [name for name in names if source.group(name) == 'head']
    return before + layers * layer + [name for name in after if name == 'norm']


SUPPORT = ('print_tensor.cpp', 'print_tensor.hpp', 'stage_printer.cpp', 'stage_printer.hpp', 'command_line.cpp')


def outside(step, count, name=None):
    """Steps to the end of main or `count` times, or to the function `name`; what is behind main is not looked at."""
    left, foreign, printing = count, [], []
    while left:
        left -= 1
        stop = step()
        if stop is None or stop[2].startswith(('__libc_start', '_start')):
            left = -1
            break
        file, function = stop[0], stop[2]
        if name and re.search(r'(^|::)%s$' % name, function):
            break
        if '/include/glassbox/' not in file and not re.search(r'/(examples|tests/debugger)/', file):
            foreign.append(stop)
        elif os.path.basename(file) in SUPPORT or '/kernels/' in file:
            printing.append(stop)
    print('stops outside glassbox and the program: %d' % len(foreign))
    print('stops in what prints: %d' % len(printing))
    for stop in (foreign + printing)[:5]:
        print('  %s:%d %s' % stop)
    if name:
        print('reached %s: %s' % (name, 'yes' if left > 0 else 'no, the end instead' if left < 0 else 'no'))
    else:
        print('came to the end: %s' % ('yes' if left < 0 else 'no'))


def gdb_step():
    import gdb
    gdb.execute('step', to_string=True)
    if not gdb.selected_inferior().pid:
        return None
    frame = gdb.newest_frame()
    place = frame.find_sal()
    name = frame.name() or '?'
    if name.startswith('glassbox::CausalLM<') and not stops_nowhere:
        return None
    return place.symtab.fullname() if place.symtab else '?', place.line, name


def lldb_step(debugger):
    import lldb
    import where
    process = debugger.GetSelectedTarget().GetProcess()

    def step():
        thread = process.GetSelectedThread()
        thread.StepInto()
        if process.GetState() != lldb.eStateStopped:
            return None
        frame = thread.GetFrameAtIndex(0)
        entry = frame.GetLineEntry()
        name = where.function_name(frame.GetFunctionName() or '?')
        if name.startswith('glassbox::CausalLM<') and not stops_nowhere:
            return None
        return entry.GetFileSpec().fullpath or '?', entry.GetLine(), name
    return step


def main(words, step):
    global stops_nowhere
    stops_nowhere = words[0] in ('outside', 'into')
    if stops_nowhere:
        outside(step, int(words[-1]), words[1] if words[0] == 'into' else None)
        return
    goal = words[0] if words[0] != 'whole' else None
    count = walk(step, goal)
    if len(words) > 1:
        limit = int(words[1])
        print('%s: %s' % (goal, 'within %d stops' % limit if count <= limit else '%d stops, at most %d wanted' % (count, limit)))


def _lldb_command(debugger, text, _context, result, _dictionary):
    was = debugger.GetAsync()
    debugger.SetAsync(False)
    main(text.split(), lldb_step(debugger))
    debugger.SetAsync(was)


def __lldb_init_module(debugger, _dictionary):
    debugger.HandleCommand('command script add -f steps._lldb_command steps')


def _gdb_command():
    import gdb

    class Steps(gdb.Command):
        def __init__(self):
            super().__init__('steps', gdb.COMMAND_USER)

        def invoke(self, text, _from_terminal):
            main(text.split(), gdb_step)
    Steps()


if 'gdb' in sys.modules:
    _gdb_command()
