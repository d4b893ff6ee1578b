"""What may stand in an expression given to a glass command: reading only. A debugger's own expressions may assign and
call, and then the program is another one than before."""
import re

from tensor_view import Mistake

CLOSES = {'(': ')', '[': ']', '{': '}'}
# Names that may stand before a parenthesis
NO_CALLS = ('sizeof', 'alignof')
CHANGES = re.compile(r'(<<=|>>=|[-+*/%&|^]=|\+\+|--)|(?<![=!<>])(=)(?!=)')


def check(text):
    """Refuses what would change something or run a function, and brackets without partner."""
    code = re.sub(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', lambda found: '0' * len(found.group()), text)
    opened = []
    for letter in code:
        if letter in CLOSES:
            opened.append(letter)
        elif letter in CLOSES.values() and (not opened or CLOSES[opened.pop()] != letter):
            raise Mistake('%s: nothing opens this %s' % (text, letter))
    if opened:
        raise Mistake('%s: the %s is not closed' % (text, opened[-1]))
    change = CHANGES.search(code)
    if change:
        raise Mistake('%s: found %s, which would change the program; == compares, `glass set` changes a number'
                      % (text, change.group()))
    for call in re.finditer(r'([A-Za-z_~][\w:]*)\s*(?:<[^()<>]*>)?\s*\(', code):
        if call.group(1) not in NO_CALLS:
            raise Mistake('%s: found the call of %s, and nothing is called here: memory is read, that is all'
                          % (text, call.group(1)))


def names_in(text):
    """The identifiers in it that stand for variables, as far as one can see: no members, no qualified names."""
    code = re.sub(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', ' ', text)
    words = ('this', 'true', 'false', 'nullptr', 'sizeof', 'alignof', 'const', 'unsigned', 'signed', 'void', 'bool', 'char', 'short',
             'int', 'long', 'float', 'double')
    return list(dict.fromkeys(name for name in re.findall(r'(?<![\w.$:])(?<!->)[A-Za-z_]\w*(?!\s*(?:::|<\w|\w))', code)
                              if name not in words))
