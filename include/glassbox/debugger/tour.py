"""`glass tour`: runs from one must-see place to the next and tells what to look at there. The stops are in tour_stops.py."""
import re
from collections import namedtuple

from tensor_view import Garbage, Mistake
from tour_stops import LABELS, STOPS

Stop = namedtuple('Stop', 'title stage layer program look commands question answer chinese')

# The tour's own words
WORDS = {
    'en': {'head': '--- %d of %d: %s ---', 'item': '  %2d  %s (%s%s)', 'colon': ': ',
           'end': 'That was the last stop of this program; `glass tour %d` begins again.',
           'elsewhere': 'stop %d is in another program: build/debug/examples/%s',
           'in': ', in %s',
           'again': 'The program is past this stop: it is started again.',
           'step': 'This is decode step %d, not the prefill: it has one token.',
           'language': 'The tour speaks English; `glass tour` goes on.'},
    'zh': {'head': '--- 第 %d 站，共 %d 站：%s ---', 'item': '  %2d  %s（%s%s）', 'colon': '：',
           'end': '这是本程序的最后一站；`glass tour %d` 从头再来。',
           'elsewhere': '第 %d 站在另一个程序里：build/debug/examples/%s',
           'in': '，在 %s 里',
           'again': '程序已经过了这一站：重新启动它。',
           'step': '这是第 %d 个解码步，不是预填充：只有一个词元。',
           'language': '导览改用中文；`glass tour` 继续，`glass tour en` 换回英文。'},
}


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
        stops.append(Stop(words['title'], words['stage'], words.get('layer'), words.get('program'), words['look'], words['do'],
                          words['question'], words['answer'],
                          {name: words[name + '_zh'] for name in ('title', 'look', 'question', 'answer')}))
    return stops


class Tour:
    def __init__(self, glass):
        self.glass = glass
        self.stops = read_stops()
        self.next = None
        self.language = 'en'

    def run(self, words):
        """To the next stop, to stop N, the list of all, or the other language."""
        if words and words[0] in WORDS:
            self.language = words.pop(0)
            if not words:
                self.glass.say(self.word('language'))
                return
        if words == ['list']:
            for number, stop in enumerate(self.stops, 1):
                where = self.word('in') % stop.program if stop.program else ''
                self.glass.say(self.word('item') % (number, self.text(stop, 'title'), stop.stage, where))
            return
        if len(words) > 1 or (words and not re.fullmatch('[0-9]{1,9}', words[0])):
            raise Mistake('`glass tour` goes on, `glass tour 3` to stop 3, `glass tour list` shows all, `glass tour zh` '
                          'speaks Chinese')
        here = self.numbers_here()
        number = int(words[0]) - 1 if words else here[0] if self.next is None else self.next
        if words and not 0 <= number < len(self.stops):
            raise Mistake('the tour has stops 1 to %d' % len(self.stops))
        if words and number not in here:
            raise Mistake(self.word('elsewhere') % (number + 1, self.stops[number].program or 'generate'))
        if number not in here:
            self.next = None
            self.glass.say(self.word('end') % (here[0] + 1))
            if number < len(self.stops):
                self.glass.say(self.word('elsewhere') % (number + 1, self.stops[number].program))
            return
        stop = self.stops[number]
        self.glass.say(self.word('head') % (number + 1, len(self.stops), self.text(stop, 'title')))
        if not self.is_there(stop):
            self.go_to(stop)
        self.next = number + 1
        self.tell(stop)

    def numbers_here(self):
        """The stops of the program that is loaded: its own where it has some, else those of any that generates."""
        program = self.glass.debugger.program()
        own = [number for number, stop in enumerate(self.stops) if stop.program == program]
        return own or [number for number, stop in enumerate(self.stops) if stop.program is None]

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
        self.glass.say(self.word('again'))
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
            self.glass.say(self.word('step') % step)
        self.say_text(stop, 'look')
        for command in stop.commands:
            self.glass.say('> glass ' + command)
            try:
                self.glass.run(command)
            except (Mistake, Garbage) as error:
                self.glass.say('%s' % error)
        self.say_text(stop, 'question')
        self.say_text(stop, 'answer')

    def word(self, name):
        return WORDS[self.language][name]

    def text(self, stop, name):
        return stop.chinese[name] if self.language == 'zh' else getattr(stop, name)

    def say_text(self, stop, name):
        from glass_commands import wrapped
        label = LABELS[self.language][('look', 'question', 'answer').index(name)]
        self.glass.say('\n'.join(wrapped(label + self.word('colon'), self.text(stop, name))))
