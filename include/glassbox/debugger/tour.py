"""`glass tour`: runs from one must-see place to the next and tells what to look at there. The stops are in tour_stops.py."""
import re
from collections import namedtuple

from tensor_view import Garbage, Mistake
from tour_stops import STOPS

Stop = namedtuple('Stop', 'title stage layer look commands question answer chinese')


def read_stops(text=STOPS):
    """The blocks of the text; a line is `name: words`."""
    stops = []
    for block in re.split(r'\n\s*\n', text.strip()):
        words = {'do': []}
        for line in block.split('\n'):
            name, _, rest = line.partition(': ')
            if name == 'do':
                words['do'].append(rest)
            else:
                words[name] = rest
        stops.append(Stop(words['title'], words['stage'], words.get('layer'), words['look'], words['do'],
                          words['question'], words['answer'],
                          {name: words[name + '_zh'] for name in ('title', 'look', 'question', 'answer')}))
    return stops


class Tour:
    def __init__(self, glass):
        self.glass = glass
        self.stops = read_stops()
        self.next = 0

    def run(self, words):
        """To the next stop, to stop N, or the list of all."""
        if words == ['list']:
            for number, stop in enumerate(self.stops, 1):
                self.glass.say('  %d  %s (%s)' % (number, stop.title, stop.stage))
            return
        if len(words) > 1 or (words and not words[0].isdigit()):
            raise Mistake('`glass tour` goes on, `glass tour 3` to stop 3, `glass tour list` shows all')
        number = int(words[0]) - 1 if words else self.next
        if words and not 0 <= number < len(self.stops):
            raise Mistake('the tour has stops 1 to %d' % len(self.stops))
        if number >= len(self.stops):
            self.next = 0
            self.glass.say('That was the last stop; `glass tour 1` begins again.')
            return
        stop = self.stops[number]
        self.glass.say('--- %d of %d: %s ---' % (number + 1, len(self.stops), stop.title))
        if not self.is_there(stop):
            self.go_to(stop)
        self.next = number + 1
        self.tell(stop)

    def is_there(self, stop):
        here = self.glass.where.here() if self.glass.debugger.is_running() else None
        return bool(here and here.at and here.at.stage == stop.stage and str(here.layer) == (stop.layer or '-1')
                    and not self.glass.where.step())

    def go_to(self, stop):
        """To the stop in the prefill; where that is past, by starting the program again."""
        layer = int(stop.layer or '-1')
        if not self.is_past(stop.stage, layer) or self.glass.debugger.can_run():
            self.glass.do_next([stop.stage] + (['--layer', stop.layer] if stop.layer else []))
            return
        self.glass.say('The program is past this stop: it is started again.')
        self.glass.without_breakpoints(lambda: self.glass.run_to(
            self.glass.wanted_lines(stop.stage), lambda line: self.glass.layer_at(line) == layer,
            self.glass.debugger.restart))

    def is_past(self, stage, layer):
        """Whether the prefill has left this stage behind."""
        where = self.glass.where
        if not self.glass.debugger.is_running():
            return False
        if where.step():
            return True
        here = where.here()
        line = (here.at or here.last) if here else None
        name, at_layer = (line.stage, here.layer) if line else where.last_passed()
        return bool(name) and self.order(name, at_layer) >= self.order(stage, layer)

    def order(self, stage, layer):
        source = self.glass.where.source()
        names, groups = source.passed_names(), ('input', 'layer', 'head', 'choosing')
        group = source.group(stage)
        return (groups.index(group) if group in groups else len(groups), layer,
                names.index(stage) if stage in names else len(names))

    def tell(self, stop):
        step = self.glass.where.step() if self.glass.debugger.is_running() else None
        if step:
            self.glass.say('This is decode step %d, not the prefill: it has one token.' % step)
        self.say_wrapped('Look: ', stop.look)
        for command in stop.commands:
            self.glass.say('> glass ' + command)
            try:
                self.glass.run(command)
            except (Mistake, Garbage) as error:
                self.glass.say('%s' % error)
        self.say_wrapped('They ask: ', stop.question)
        self.say_wrapped('You say: ', stop.answer)

    def say_wrapped(self, prefix, text):
        from glass_commands import wrapped
        self.glass.say('\n'.join(wrapped(prefix, text)))
