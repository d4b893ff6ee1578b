"""`glass tour`: runs from one must-see place to the next and tells what to look at there. The stops are in tour_stops.py."""
import re
from collections import namedtuple

from tensor_view import Garbage, Mistake
from tour_stops import STOPS

Stop = namedtuple('Stop', 'title stage layer look commands question answer')


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
                          words['question'], words['answer']))
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
            self.glass.do_next([stop.stage] + (['--layer', stop.layer] if stop.layer else []))
        self.next = number + 1
        self.tell(stop)

    def is_there(self, stop):
        here = self.glass.where.here() if self.glass.debugger.is_running() else None
        return bool(here and here.at and here.at.stage == stop.stage and str(here.layer) == (stop.layer or '-1'))

    def tell(self, stop):
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
