"""What the model would say if it stopped here ("logit lens"): a hidden state through the final norm and the LM
head, computed from the weights in the program's memory, without running the program."""
import math
import operator

from tensor_view import Garbage, Mistake, number
from value_views import read_string, view_of
from where import visible

LARGEST = 1 << 26  # products; about three seconds


def lens(where, view, already_normalised, top, position):
    """Text: the top tokens for one position (the last, if none is named) of [..., seq, hidden]."""
    model, head = _model(where)
    hidden = model['norm'].shape[-1]
    if not view.axes or view.shape[-1] != hidden:
        raise Mistake('%s is no hidden state: its last axis must be hidden=%d' % (view.type_text(), hidden))
    count = view.row_count()
    chosen = count - 1 if position is None else position
    if not -count <= chosen < count:
        raise Mistake('--position %d is not in 0..%d' % (chosen, count - 1))
    if head.size > LARGEST:
        raise Mistake('the LM head %s is too large for the debugger' % head.type_text())
    x = list(view.row(view.row_index(chosen % count)))
    if not already_normalised:
        mean_square = sum(map(operator.mul, x, x)) / len(x)
        inverse_rms = 1 / math.sqrt(mean_square + model['eps'])
        weight = model['norm'].row([])
        x = [value * inverse_rms * w for value, w in zip(x, weight)]
    logits = [sum(map(operator.mul, row, x)) for _, row in head.rows()]
    largest = max(logits)
    if not math.isfinite(largest):
        raise Mistake('the logits are not finite: `glass find nan`')
    total = sum(math.exp(logit - largest) for logit in logits)
    order = sorted(range(len(logits)), key=lambda token: (-logits[token], token))[:top]
    lines = ['position %d of %s' % (chosen % count, view.label)]
    lines[0] += ', through ' + ('the LM head' if already_normalised else 'the final norm and the LM head') + ':'
    for token in order:
        probability = math.exp(logits[token] - largest) / total
        line = '  %6.2f %%  logit %s  id %-6d %s' % (100 * probability, number(logits[token]).rjust(8), token,
                                                 piece_of(where, token))
        lines.append(line.rstrip())
    return '\n'.join(lines)


def _model(where):
    """The norm, its eps and the matrix of the LM head, from the callers on the stack."""
    found = {}
    for frame in where.debugger.frames():
        names = {'norm': 'glassbox::RMSNorm<', 'embed_tokens': 'glassbox::Embedding<', 'lm_head': 'glassbox::LMHead<'}
        for name, kind in names.items():
            value = frame.variable(name) if name not in found else None
            if value is not None and value.type_name().startswith(kind):
                found[name] = value
    if 'norm' not in found or 'lm_head' not in found:
        raise Mistake('no model on the stack: stop inside CausalLM::forward (`glass next residual`)')
    head = view_of(found['lm_head'].field('weight'), 'lm_head.weight')
    if head.size == 0:  # tied
        head = view_of(found['embed_tokens'].field('weight'), 'embed_tokens.weight')
    norm = found['norm']
    eps = norm.field('eps')
    element = view_of(norm.field('weight')).element
    raw = bytes(eps.read(eps.address(), element.bytes))
    return {'norm': view_of(norm.field('weight')), 'eps': element.decode(raw)[0]}, head


def piece_of(where, token):
    """The text of a token from the tokenizer's table; '' where no tokenizer is on the stack."""
    for frame in where.debugger.frames():
        for name in ('tokenizer_', 'tokenizer'):
            value = frame.variable(name)
            try:
                if value is None or not value.is_pointer() or not value.integer():
                    continue
                entries = value.field_behind('entries_')
                if entries is None:
                    continue
                first = entries.field('_M_impl').field('_M_start').target()
                address = first.field('piece').address() + token * first.byte_size()
                return visible(read_string(value.read, address))
            except (Garbage, AttributeError):
                continue
    return ''
