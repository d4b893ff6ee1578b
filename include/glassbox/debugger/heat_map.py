"""A tensor as a picture in the terminal: one cell a number, or the largest of a block where there are many."""
import math

from tensor_view import Axis, Mistake, Statistics, limits, number

WIDTH, HEIGHT, PICTURES = 64, 32, 8
RAMP = ' .:-=+*#%@'


def heat_map(view, colour, row_words=None, column_words=None):
    """Text. Two axes make a picture, more axes one picture for each index of the leading ones. `row_words` and
    `column_words` (tokens) stand at rows and columns where there are as many."""
    if view.size == 0:
        raise Mistake('%s has no numbers to show' % view.type_text())
    if view.size <= limits.statistics:
        view = view.loaded()
    leading = view.axes[:-2]
    count = 1
    for axis in leading:
        count *= axis.size
    limit = limits.statistics // min(count, PICTURES)
    one_axis = view if len(view.axes) == 1 else None
    if one_axis:
        view = view.with_axes([Axis('', 1, 0)] + view.axes)
    pictures = []
    for k in range(min(count, PICTURES)):
        index = []
        for axis in reversed(leading):
            index.insert(0, k % axis.size)
            k //= axis.size
        label = '%s%s' % (view.label, '[%s]' % ', '.join(map(str, index)) if leading else '')
        picture = view.with_axes(view.axes[len(leading):], view.row_address(index), label)
        head = '%s %s' % ((one_axis or picture).label, (one_axis or picture).summary(limit))
        pictures.append('\n'.join([head] + list(_picture(picture, limit, colour, row_words, column_words))))
    if count > PICTURES:
        pictures.append('%d more: name one by its indices, as in %s[%s]'
                        % (count - PICTURES, view.label, ', '.join('0' for _ in leading)))
    return '\n'.join(pictures)


def _block(cell, limit):
    """What stands for a block: nan if any is, else the finite number of largest size, else an infinity."""
    found = Statistics()
    for values in cell.arrays_within(limit):
        found.add(values)
    if found.nan:
        return math.nan
    if found.minimum is None:
        return math.inf if found.plus_inf else -math.inf
    return found.maximum if found.maximum >= -found.minimum else found.minimum


def _cells(view, limit):
    """The cells, and how many numbers of each block were looked at at most (None: all)."""
    rows, columns = view.shape
    height, width = min(rows, HEIGHT), min(columns, WIDTH)
    most = None if view.size <= limit else max(1, limit // (height * width))
    cells = []
    for r in range(height):
        first, last = r * rows // height, (r + 1) * rows // height
        line = []
        for c in range(width):
            begin, end = c * columns // width, (c + 1) * columns // width
            block = [axis._replace(size=size) for axis, size in zip(view.axes, (last - first, end - begin))]
            line.append(_block(view.with_axes(block, view.row_address([first]) + begin * view.axes[1].stride), most))
        cells.append(line)
    return cells, most


def _picture(view, limit, colour, row_words, column_words):
    rows, columns = view.shape
    cells, most = _cells(view, limit)
    finite = [x for line in cells for x in line if math.isfinite(x)]
    low, high = (min(finite), max(finite)) if finite else (0, 0)
    reach = max(abs(low), abs(high)) or 1
    row_words = row_words if row_words and len(row_words) == rows <= HEIGHT else None
    column_words = column_words if column_words and len(column_words) == columns <= WIDTH else None
    margin = max(map(len, row_words)) if row_words else len(str(rows - 1))
    margin = max(margin, 4)
    wide = 2 if columns <= WIDTH // 2 else 1
    if column_words:
        yield from _column_heads(column_words, margin, wide)
    for r, line in enumerate(cells):
        word = row_words[r] if row_words else str(r * rows // len(cells))
        text = ''.join(_cell(x, low, high, reach, colour) * wide for x in line)
        yield '%s |%s|' % (word.rjust(margin), text + ('\x1b[0m' if colour else ''))
    block = '' if rows <= HEIGHT and columns <= WIDTH else ', a cell is the largest of its block'
    block += ', of which %d numbers were looked at' % most if most else ''
    scale = '%s to %s' % (number(low), number(high))
    if colour:
        yield ' ' * margin + '  blue %s red%s; . is -inf, ! is nan' % (scale, block)
    else:
        yield ' ' * margin + "  '%s' %s%s; _ is -inf, ! is nan" % (RAMP, scale, block)


def _column_heads(words, margin, wide):
    """The words written downwards, the last letters lowest."""
    height = min(8, max(map(len, words)))
    words = [word if len(word) <= height else word[:height - 1] + '~' for word in words]
    for level in range(height):
        letters = [word.rjust(height)[level] + ' ' * (wide - 1) for word in words]
        yield (' ' * margin + '  ' + ''.join(letters)).rstrip()


def _cell(x, low, high, reach, colour):
    if x != x:
        return '!'
    if math.isinf(x):
        if colour:
            return '\x1b[0m' + ('.' if x < 0 else '^')
        return '_' if x < 0 else '^'
    if not colour:
        # halves: the difference of large doubles may be more than a double holds
        share = (x / 2 - low / 2) / (high / 2 - low / 2) if high - low > 1e300 else (x - low) / ((high - low) or 1)
        return RAMP[min(9, int(share * 9.999))]
    strength = int(255 * (1 - min(1.0, abs(x) / reach)))
    red, green, blue = (255, strength, strength) if x >= 0 else (strength, strength, 255)
    return '\x1b[48;2;%d;%d;%dm ' % (red, green, blue)
