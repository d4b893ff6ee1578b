"""NumPy's .npy files: written from an ArrayView, read as one."""
import ast
import os
import struct

from tensor_view import BF16, BY_SHORT_NAME, F32, ArrayView, Axis, Mistake, limits

NPY_ELEMENTS = {element.npy: element for element in BY_SHORT_NAME.values() if element.npy}


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
    element = F32 if view.element is BF16 else view.element
    bytes_of_data = view.size * element.bytes
    if bytes_of_data > limits.dump:
        raise Mistake('%s takes %d bytes, more than the limit of %d: dump a slice, or set `glass limits dump=%d`'
                      % (view.type_text(), bytes_of_data, limits.dump, bytes_of_data))
    start = header(element.npy, view.shape)
    with open(path, 'wb') as file:
        file.write(start)
        if view.is_row_major() and element is view.element:
            for offset in range(0, bytes_of_data, 1 << 22):
                count = min(1 << 22, bytes_of_data - offset)
                file.write(bytes(view.read(view.address + offset, count)))
        else:
            for _, row in view.loaded().rows():
                file.write(row.tobytes() if row.itemsize == element.bytes
                           else b''.join(element.encode(value) for value in row))
    return len(start) + bytes_of_data


def read(path):
    """The file as a view. Raises Mistake for what is no .npy file or holds what no tensor can."""
    try:
        with open(path, 'rb') as file:
            raw = file.read()
    except OSError as error:
        raise Mistake('%s: %s' % (path, error.strerror)) from None
    try:
        if raw[:6] != b'\x93NUMPY':
            raise ValueError
        length_bytes = 2 if raw[6] == 1 else 4
        begin = 8 + length_bytes
        end = begin + int.from_bytes(raw[8:begin], 'little')
        words = ast.literal_eval(raw[begin:end].decode('latin1'))
        shape, fortran, descr = words['shape'], words['fortran_order'], words['descr']
    except (ValueError, SyntaxError, IndexError, KeyError, TypeError):
        raise Mistake('%s is no .npy file' % path) from None
    if descr not in NPY_ELEMENTS:
        raise Mistake('%s: elements of type %s are not known here' % (path, descr))
    element = NPY_ELEMENTS[descr]
    sizes = list(shape) or [1]
    axes, stride = [], element.bytes
    for size in sizes if fortran else reversed(sizes):
        axes.insert(len(axes) if fortran else 0, Axis('', size, stride))
        stride *= size
    if end + stride != len(raw):
        raise Mistake('%s: %d bytes of data, expected %d' % (path, len(raw) - end, stride))

    def read_memory(address, count):
        return raw[address:address + count]
    return ArrayView(read_memory, end, element, axes, os.path.basename(path))
