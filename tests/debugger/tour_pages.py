#!/usr/bin/env python3
"""tour_pages.py [--check]: makes docs/tour.md and docs/loss_tour.md, and the same in docs/zh, of the stops of `glass tour`. What a reader sees in the debugger is
computed here by tests/reference/float64_llama.py, which knows nothing of the library, for the embedded model and its default
prompt; run_session.py plays the page in gdb and lldb and compares every number.

--check: writes nothing, fails where a page is not what it would be, or where a Chinese page shows another session than the English
one, which is the one played (faults: a stop changed without the pages; a number changed in one language only)."""
import math
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, '..', '..'))
MODEL = os.path.join(ROOT, 'examples', 'models', 'fables')
sys.path[:0] = [os.path.join(ROOT, 'tests', 'reference'), os.path.join(ROOT, 'include', 'glassbox', 'debugger')]
import float64_llama
from tour import read_stops
from tour_stops import LABELS

IDS = [1, 525, 526, 293, 510]
ALIASES = {'q_proj_output': ('q_proj', 0)}
NOT_SHOWN = ('heat', 'why')  # pictures and explanations: no numbers to check
SUMS_TO_ZERO = ('d_logits',)  # their mean is noise

TEXTS = {
    'en': {
        'head': '''# The tour: what one must have seen

`glass tour` leads through a language model in the debugger: how it lies in memory, how text becomes a batch, how the forward pass
goes; the fourth place, the loss, has [a page of its own](loss_tour.md), since another program computes it. Here is the same as a page, for reading or for following. Every number
below was computed by another program, in float64 and without this library: yours must agree in all digits but perhaps the last,
or in a long sum the last two.

```
cmake --preset debug
cmake --build --preset debug --target generate
gdb -q build/debug/examples/generate
```

In lldb the words after `glass` are the same; [debugging.md](debugging.md) tells how to start it. The prompt is "Once upon a time".
`glass tour` runs from stop to stop and types these commands for you; `glass tour 3` goes to one of them, and after
`glass tour zh` it speaks Chinese. `...` stands for lines that
are left out here.

```console
(gdb) source include/glassbox/debugger/glassbox_gdb.py
```
''', 'from': '中文: [zh/tour.md](zh/tour.md)'},
    'zh': {
        'head': '''# 导览：必须亲眼看过的地方

`glass tour` 在调试器里带你走过一个语言模型：它怎样放在内存里，文本怎样变成 batch，前向计算怎样进行；第四个地方——损失——由另一个程序计算，[另有一页](loss_tour.md)。
本页是同样的内容，可以读，也可以跟着做。下面的每个数都由另一个程序用 float64 算出，没有用到本库：你看到的应当逐位相同，最多末位有差别（长的求和是末两位）。

```
cmake --preset debug
cmake --build --preset debug --target generate
gdb -q build/debug/examples/generate
```

在 lldb 里 `glass` 后面的词完全一样；怎样启动见 [debugging.md](../debugging.md)。提示词是 “Once upon a time”。
`glass tour` 一站一站地走，并替你输入这些命令；`glass tour 3` 直接到第三站；先输入 `glass tour zh`，它就说中文。`...` 表示这里省略的行。

```console
(gdb) source include/glassbox/debugger/glassbox_gdb.py
```
''', 'from': 'English: [../tour.md](../tour.md)'},
}


def read_pieces(path):
    """The pieces of a SentencePiece model: field 1 of the file, repeated, and field 1 of each."""
    with open(path, 'rb') as file:
        data = file.read()

    def varint(at):
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                return value, at
    pieces, at = [], 0
    while at < len(data):
        key, at = varint(at)
        if key & 7 != 2:
            raise ValueError('%s: unexpected field' % path)
        length, at = varint(at)
        if key >> 3 == 1:
            _, inner = varint(at)
            size, inner = varint(inner)
            pieces.append(data[inner:inner + size].decode('utf-8').replace('\u2581', '_'))
        at += length
    return pieces


LOSS_HEADS = {
    'en': '''# The tour, fourth place: the loss

What one must have seen of learning, in `14_backward`: the loss of the running text and the way back from it. The stops are those of
`glass tour`, which goes on with them in this program. Every number below was computed by another program, in float64 and without this
library.

```
cmake --preset debug
cmake --build --preset debug --target 14_backward
gdb -q build/debug/examples/14_backward
```

The text is "Once upon a time", the model the embedded one. What each gradient is for tells [training.md](training.md). `...` stands
for lines that are left out here.

```console
(gdb) source include/glassbox/debugger/glassbox_gdb.py
```
''',
    'zh': '''# 导览的第四个地方：损失

关于“学习”必须亲眼看过的东西，在 `14_backward` 里：这段文本的损失，以及从损失往回走的路。各站就是 `glass tour` 的后几站，在这个程序里接着走。
下面的每个数都由另一个程序用 float64 算出，没有用到本库。

```
cmake --preset debug
cmake --build --preset debug --target 14_backward
gdb -q build/debug/examples/14_backward
```

文本是 “Once upon a time”，模型是内置的那个。每个梯度的意义见 [training.md](training.md)。`...` 表示这里省略的行。

```console
(gdb) source include/glassbox/debugger/glassbox_gdb.py
```
''',
}


class Values:
    """The stages of one run, printed as the debuggers print them."""

    def __init__(self):
        self.stages = float64_llama.run(MODEL, IDS)
        self.pieces = read_pieces(os.path.join(MODEL, 'tokenizer.model'))
        self.tokens = [self.pieces[token] for token in IDS]

    def get(self, name, layer):
        if name == 'expanded_mask':
            return ['batch', 'head', 'query', 'key'], [1, 1, 1, len(IDS)], [True] * len(IDS)
        name = name.split('.')[-1] if name.startswith('result.') else name
        if name in ALIASES:
            name = ALIASES[name][0]
        key = (name, layer) if (name, layer) in self.stages else (name, -1)
        axes, sizes, numbers = self.stages[key]
        if name == 'attention_mask':
            axes = ['batch', 'seq']
        return axes, sizes, numbers

    def sliced(self, text, layer):
        """(axes, sizes, numbers, kind) of NAME[SLICE]."""
        name, _, inside = text.partition('[')
        axes, sizes, numbers = self.get(name, layer)
        kind = 'bool' if numbers[0] in (True, False) and isinstance(numbers[0], bool) else \
            'i64' if isinstance(numbers[0], int) else 'f32'
        parts = [part.strip() for part in inside.rstrip(']').split(',')] if inside else []
        ranges, kept = [], []
        for i, size in enumerate(sizes):
            part = parts[i] if i < len(parts) else ':'
            if ':' in part:
                begin, end = part.split(':')
                ranges.append(range(int(begin or 0), int(end or size)))
                kept.append(i)
            else:
                ranges.append(range(int(part), int(part) + 1))
        indices = [0]
        for size, one in zip(sizes, ranges):
            indices = [index * size + j for index in indices for j in one]
        return [axes[i] for i in kept], [len(ranges[i]) for i in kept], [numbers[i] for i in indices], kind

    def head(self, axes, sizes, numbers, kind):
        shape = '%s[%s]' % (kind, ', '.join('%s=%d' % pair for pair in zip(axes, sizes)))
        if kind == 'bool':
            return '%s true=%d false=%d' % (shape, numbers.count(True), numbers.count(False))
        if len(numbers) == 1:
            return '%s = %s' % (shape, number(numbers[0]))
        finite = [x for x in numbers if math.isfinite(x)]
        text = '%s min=%s max=%s mean=%s' % (shape, number(min(finite)), number(max(finite)),
                                             '%.4g' % (math.fsum(finite) / len(finite)))
        return text if kind == 'i64' else text + ' nan=0 inf=%d' % (len(numbers) - len(finite))

    def show(self, text, layer):
        axes, sizes, numbers, kind = self.sliced(text, layer)
        lines = ['%s %s' % (text, self.head(axes, sizes, numbers, kind))]
        columns = sizes[-1]
        for row in range(len(numbers) // columns):
            words = [('true' if x else 'false').rjust(5) if kind == 'bool' else number(x).rjust(10)
                     for x in numbers[row * columns:(row + 1) * columns]]
            label = '[:]' if len(axes) == 1 else '[%s=%d]' % (axes[-2], row)
            token = ''
            if len(axes) > 1 and axes[-2] in ('seq', 'query', 'key') and sizes[-2] == len(self.tokens):
                token = '  ' + self.tokens[row]
            lines.append('  %s %s%s' % (label, ' '.join(words), token))
        return lines

    def stats(self, text, layer):
        axes, sizes, numbers, kind = self.sliced(text, layer)
        mean = math.fsum(numbers) / len(numbers)
        deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in numbers) / len(numbers))
        return ['%s f32[%s]' % (text, ', '.join('%s=%d' % pair for pair in zip(axes, sizes))),
                '  elements %d, %d bytes, row after row' % (len(numbers), 4 * len(numbers)),
                '  min %.8g  max %.8g  sum %.8g  mean %.8g  std %.8g' % (
                    min(numbers), max(numbers), math.fsum(numbers), mean, deviation), '  nan 0, +inf 0, -inf 0']

    def lens(self, layer):
        logits = self.stages['lens', layer][2]
        largest = max(logits)
        total = math.fsum(math.exp(x - largest) for x in logits)
        lines = ['position %d of layer_output, through the final norm and the LM head:' % (len(IDS) - 1)]
        for token in sorted(range(len(logits)), key=lambda i: -logits[i])[:5]:
            lines.append('  %6.2f %%  logit %s  id %-6d %s' % (
                100 * math.exp(logits[token] - largest) / total, ('%.4g' % logits[token]).rjust(8), token, self.pieces[token]))
        return lines

    def tokens_table(self):
        return ['  %4d  %6d  %s' % (i, token, self.tokens[i]) for i, token in enumerate(IDS)]

    def config(self):
        import json
        with open(os.path.join(MODEL, 'config.json'), encoding='utf-8') as file:
            config = json.load(file)
        heads = config['num_attention_heads']
        remarks = {'num_key_value_heads': 'each serves %d query heads' % (heads // config['num_key_value_heads']),
                   'head_dim': '%d heads * %d = %d' % (heads, config['head_dim'], heads * config['head_dim']),
                   'max_position_embeddings': 'the context: tokens a text may have',
                   'tie_word_embeddings': 'the LM head is the embedding matrix'}
        names = ['vocab_size', 'hidden_size', 'intermediate_size', 'num_hidden_layers', 'num_attention_heads',
                 'num_key_value_heads', 'head_dim', 'max_position_embeddings', 'rms_norm_eps', 'rope_theta',
                 'tie_word_embeddings']
        return [('  %-24s %-8s %s' % (name, '%g' % config[name], remarks.get(name, ''))).rstrip() for name in names]

    def printed(self, command, stop):
        word, _, rest = command.partition(' ')
        layer = int(stop.layer or -1)
        if word == 'show':
            return self.show(rest, layer)
        if word == 'stats':
            return self.stats(rest or stop.stage, layer)
        if word == 'lens':
            return self.lens(layer)
        return {'tokens': self.tokens_table, 'config': self.config}[word]()


def number(value):
    return str(value) if isinstance(value, int) else '%.4g' % value


def page(language, stops, values, program):
    look, ask, say = LABELS[language]
    texts, name = TEXTS[language], 'loss_tour' if program else 'tour'
    lines = ['<!-- Made by tests/debugger/tour_pages.py; numbers agree within 0.002 -->',
             LOSS_HEADS[language] if program else texts['head'], texts['from'].replace('tour.md', name + '.md'), '']
    last = None
    for count, stop in enumerate(stops, 1):
        if stop.program != program:
            continue
        words = stop.chinese if language == 'zh' else stop._asdict()
        lines += ['## %d. %s' % (count, words['title']), '', '**%s:** %s' % (look, words['look']), '', '```console']
        here = (stop.stage, stop.layer)
        if here != last:
            lines.append('(gdb) glass next %s%s' % (stop.stage, ' --layer ' + stop.layer if stop.layer else ''))
            axes, sizes, numbers, kind = values.sliced(stop.stage, int(stop.layer or -1))
            lines += ['...'] if stop.stage in SUMS_TO_ZERO else ['...', '%s%s: %s' % (stop.stage, ', layer ' + stop.layer if stop.layer else '',
                                           values.head(axes, sizes, numbers, kind))]
        last = here
        for command in stop.commands:
            lines.append('(gdb) glass ' + command)
            lines += ['...'] if command.split()[0] in NOT_SHOWN else values.printed(command, stop)
        lines += ['```', '', '**%s:** %s' % (ask, words['question']), '',
                  '**%s:** %s' % (say, words['answer']), '']
    return '\n'.join(lines).rstrip('\n') + '\n'


def consoles(path):
    with open(os.path.join(ROOT, path), encoding='utf-8') as file:
        return re.findall(r'```console\n(.*?)```', file.read(), re.S)


def main():
    check = sys.argv[1:] == ['--check']
    if sys.argv[1:] and not check:
        sys.exit('usage: tour_pages.py [--check]')
    stops, values, wrong = read_stops(), Values(), []
    for language, program, path in (('en', None, 'docs/tour.md'), ('zh', None, 'docs/zh/tour.md'),
                                    ('en', '14_backward', 'docs/loss_tour.md'), ('zh', '14_backward', 'docs/zh/loss_tour.md')):
        text = page(language, stops, values, program)
        path = os.path.join(ROOT, path)
        if not check:
            with open(path, 'w', encoding='utf-8') as file:
                file.write(text)
            continue
        with open(path, encoding='utf-8') as file:
            if file.read() != text:
                wrong.append(path)
    if check and consoles('docs/kv_cache_tour.md') != consoles('docs/zh/kv_cache_tour.md'):
        sys.exit('docs/kv_cache_tour.md and docs/zh/kv_cache_tour.md show different sessions')
    if wrong:
        sys.exit('not what the stops say, run tests/debugger/tour_pages.py: ' + ' '.join(wrong))


main()
