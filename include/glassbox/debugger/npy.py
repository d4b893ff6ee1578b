"""NumPy's .npy files: written from an ArrayView, read as one."""
import ast
import os
import struct
import sys

from tensor_view import BF16, ELEMENTS, F32, ArrayView, Axis, Mistake, limits

NPY_ELEMENTS = {element.npy.lstrip('<|'): element for element in ELEMENTS.values() if element.npy}
LONGEST_HEADER = 10000  # NumPy refuses longer ones, too
MOST_AXES = 64


def header(descr, shape):
    """Version 1.0; the data begins at a multiple of 64 bytes."""
    shape_text = '(%s)' % ''.join('%d, ' % size for size in shape)
    if len(shape) == 1:
        shape_text = '(%d,)' % shape[0]
    elif shape:
        shape_text = '(%s)' % ', '.join(map(str, shape))
    text = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape_text)
    text += ' ' * (-(10 + len(text) + 1) % 64) + '\n'
    return b'\x93NUMPY\x01\x00' + struct.pack('<H', len(text)) + text.encode('latin1')


def write(view, path):
    """Writes the elements in row-major order, bf16 widened to f32. Returns the bytes written."""
    if not view.axes:
        raise Mistake('%s has no numbers to write' % view.type_text())
    element = F32 if view.element is BF16 else view.element
    bytes_of_data = view.size * element.bytes
    if bytes_of_data > limits.dump:
        raise Mistake('%s takes %d bytes, more than the limit of %d: dump a slice, or set `glass limits dump=%d`'
                      % (view.type_text(), bytes_of_data, limits.dump, bytes_of_data))
    start = header(element.npy, view.shape)
    with open(path, 'wb') as file:
        file.write(start)
        for block in view.blocks():
            raw = block.packed()
            file.write(raw if element is view.element else view.element.decode(raw).tobytes())
    return len(start) + bytes_of_data


def read(path):
    """The file as a view, its numbers read when they are wanted. Raises Mistake for what is no .npy file or holds what no
    tensor can."""
    try:
        if os.path.exists(path) and not os.path.isdir(path) and not os.path.isfile(path):
            raise Mistake('%s is no file of bytes' % path)
        with open(path, 'rb') as file:
            raw = file.read(12 + LONGEST_HEADER)
            bytes_of_file = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise Mistake('%s: %s' % (path, error.strerror)) from None
    shape, fortran, element, begin = _header(raw, bytes_of_file, path)
    axes, stride = [], element.bytes
    for size in shape if fortran else reversed(shape):
        axes.insert(len(axes) if fortran else 0, Axis('', size, stride))
        stride *= size
    if begin + stride != bytes_of_file:
        raise Mistake('%s: %d bytes of data, expected %s for the shape (%s)' % (
            path, bytes_of_file - begin, short(stride), ', '.join(map(short, shape))))

    def read_memory(address, count):
        with open(path, 'rb') as file:
            file.seek(address)
            data = file.read(count)
        if len(data) != count:
            raise Mistake('%s was changed while it was read' % path)
        return data
    return ArrayView(read_memory, begin, element, axes, os.path.basename(path))


def _header(raw, bytes_of_file, path):
    """(shape, whether the first axis is the fastest, element type, where the data begins)"""
    if raw[:6] != b'\x93NUMPY':
        raise Mistake('%s is no .npy file: it begins with %s' % (path, short(raw[:6]) if raw else 'nothing'))
    length_bytes = 2 if raw[6:7] == b'\x01' else 4
    begin = 8 + length_bytes
    length = int.from_bytes(raw[8:begin], 'little')
    if length > LONGEST_HEADER or begin + length > bytes_of_file:
        raise Mistake('%s: a header of %d bytes, in a file of %d' % (path, length, bytes_of_file))
    text = raw[begin:begin + length].decode('latin1').strip()
    try:
        words = ast.literal_eval(text)
        shape, fortran, descr = words['shape'], words['fortran_order'], words['descr']
    except (ValueError, SyntaxError, LookupError, TypeError, MemoryError, RecursionError):
        raise Mistake('%s: the header is not one of a .npy file: %s' % (path, short(text))) from None
    if not isinstance(shape, tuple) or len(shape) > MOST_AXES or any(type(n) is not int or n < 0 for n in shape) \
            or (0 in shape and max(shape) > 1 << 40):
        raise Mistake('%s: the shape %s is none' % (path, short(shape)))
    element = NPY_ELEMENTS.get(descr.lstrip('<|=')) if isinstance(descr, str) else None
    if element is None and isinstance(descr, str) and descr[:1] == '>':
        element = NPY_ELEMENTS.get(descr[1:] if descr[2:] == '1' else '')
    if element is None:
        raise Mistake('%s: elements of type %s are not known here' % (path, short(descr)))
    return list(shape) or [1], fortran, element, begin + length


def short(value, most=60):
    """What was found, for a message: its beginning."""
    try:
        text = value if isinstance(value, str) else str(value)
    except ValueError:  # a number of thousands of digits
        return 'a number of more than %d digits' % sys.get_int_max_str_digits()
    return text if len(text) <= most else text[:most] + '... (%d letters)' % len(text)
