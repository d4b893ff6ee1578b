"""A Llama in float64 and plain Python, written from the architecture's description and independent of the library: the values
that docs/tour.md shows. One text, its whole prompt in one pass.

    stages = run('examples/models/fables', [1, 525, 526, 293, 510])
    stages['scores', 0]     (axis names, sizes, numbers row after row)
"""
import json
import math
import os
import struct


def read_tensors(path):
    """safetensors: 8 bytes length, JSON, numbers. F32 only, which float64 holds exactly."""
    with open(path, 'rb') as file:
        header = json.loads(file.read(struct.unpack('<Q', file.read(8))[0]))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == '__metadata__':
            continue
        if entry['dtype'] != 'F32':
            raise ValueError('%s: %s is %s, expected F32' % (path, name, entry['dtype']))
        begin, end = entry['data_offsets']
        numbers = struct.unpack('<%df' % ((end - begin) // 4), data[begin:end])
        columns = entry['shape'][-1]
        rows = [list(numbers[i:i + columns]) for i in range(0, len(numbers), columns)]
        tensors[name] = rows if len(entry['shape']) == 2 else rows[0]
    return tensors


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b))


def linear(rows, weight):
    return [[dot(row, column) for column in weight] for row in rows]


def rms_norm(rows, weight, eps):
    result = []
    for row in rows:
        scale = 1 / math.sqrt(dot(row, row) / len(row) + eps)
        result.append([x * scale * w for x, w in zip(row, weight)])
    return result


def softmax(row):
    largest = max(row)
    shares = [math.exp(x - largest) for x in row]
    total = math.fsum(shares)
    return [share / total for share in shares]


def split(rows, heads, size):
    """[position][heads * size] -> [head][position][size]"""
    return [[row[h * size:(h + 1) * size] for row in rows] for h in range(heads)]


def rotate(head, cos, sin):
    half = len(head[0]) // 2
    return [[x * c + (-row[i + half] if i < half else row[i - half]) * s
             for i, (x, c, s) in enumerate(zip(row, cos[p], sin[p]))] for p, row in enumerate(head)]


def add(a, b):
    return [[x + y for x, y in zip(r, q)] for r, q in zip(a, b)]


class Stages(dict):
    def keep(self, name, layer, axes, nested):
        numbers = nested
        for _ in axes[1:]:
            numbers = [x for part in numbers for x in part]
        sizes = []
        for _ in axes:
            sizes.append(len(nested))
            nested = nested[0]
        self[name, layer] = (axes, sizes, numbers)


def attention(tensors, config, layer, x, cos, sin, mask, stages):
    heads, kv_heads, size = config['num_attention_heads'], config['num_key_value_heads'], config['head_dim']
    weight = {name: tensors['model.layers.%d.self_attn.%s_proj.weight' % (layer, name)] for name in 'qkvo'}
    q, k, v = (linear(x, weight[name]) for name in 'qkv')
    stages.keep('q_proj', layer, ['batch', 'seq', 'heads*head_dim'], [q])
    query, key, value = split(q, heads, size), split(k, kv_heads, size), split(v, kv_heads, size)
    stages.keep('query_heads', layer, ['batch', 'head', 'seq', 'head_dim'], [query])
    query, key = [rotate(head, cos, sin) for head in query], [rotate(head, cos, sin) for head in key]
    stages.keep('cached_keys', layer, ['batch', 'kv_head', 'key', 'head_dim'], [key])
    stages.keep('cached_values', layer, ['batch', 'kv_head', 'key', 'head_dim'], [value])
    group = heads // kv_heads
    scores = [[[dot(a, b) / math.sqrt(size) for b in key[h // group]] for a in query[h]] for h in range(heads)]
    stages.keep('scores', layer, ['batch', 'head', 'query', 'key'], [scores])
    weights = [[softmax([s + m for s, m in zip(row, mask[i])]) for i, row in enumerate(head)] for head in scores]
    stages.keep('attn_weights', layer, ['batch', 'head', 'query', 'key'], [weights])
    context = [[[dot(row, column) for column in zip(*value[h // group])] for row in weights[h]] for h in range(heads)]
    merged = [[number for h in range(heads) for number in context[h][p]] for p in range(len(x))]
    return linear(merged, weight['o'])


def feed_forward(tensors, layer, x):
    gate, up, down = (tensors['model.layers.%d.mlp.%s_proj.weight' % (layer, name)] for name in ('gate', 'up', 'down'))
    gated = [[g / (1 + math.exp(-g)) * u for g, u in zip(a, b)] for a, b in zip(linear(x, gate), linear(x, up))]
    return linear(gated, down)


def head(tensors, config, rows):
    """The final norm and the LM head on some positions: what the model would say there."""
    normed = rms_norm(rows, tensors['model.norm.weight'], config['rms_norm_eps'])
    return linear(normed, tensors.get('lm_head.weight', tensors['model.embed_tokens.weight']))


def run(folder, ids):
    with open(os.path.join(folder, 'config.json'), encoding='utf-8') as file:
        config = json.load(file)
    tensors = read_tensors(os.path.join(folder, 'model.safetensors'))
    stages, count, size = Stages(), len(ids), config['head_dim']
    stages.keep('input_ids', -1, ['batch', 'seq'], [ids])
    stages.keep('attention_mask', -1, ['batch', 'key'], [[1] * count])
    mask = [[0.0 if j <= i else -math.inf for j in range(count)] for i in range(count)]
    stages.keep('causal_mask', -1, ['batch', 'head', 'query', 'key'], [[[[j <= i for j in range(count)] for i in range(count)]]])
    stages.keep('additive_mask', -1, ['batch', 'head', 'query', 'key'], [[mask]])
    angles = [[p * config['rope_theta'] ** (-2 * (i % (size // 2)) / size) for i in range(size)] for p in range(count)]
    cos, sin = [[math.cos(a) for a in row] for row in angles], [[math.sin(a) for a in row] for row in angles]
    stages.keep('embed_tokens.weight', -1, ['vocab', 'hidden'], tensors['model.embed_tokens.weight'])
    x = [tensors['model.embed_tokens.weight'][token] for token in ids]
    stages.keep('inputs_embeds', -1, ['batch', 'seq', 'hidden'], [x])
    for layer in range(config['num_hidden_layers']):
        norms = [tensors['model.layers.%d.%s.weight' % (layer, name)]
                 for name in ('input_layernorm', 'post_attention_layernorm')]
        normed = rms_norm(x, norms[0], config['rms_norm_eps'])
        x = add(x, attention(tensors, config, layer, normed, cos, sin, mask, stages))
        x = add(x, feed_forward(tensors, layer, rms_norm(x, norms[1], config['rms_norm_eps'])))
        stages.keep('layer_output', layer, ['batch', 'seq', 'hidden'], [x])
        stages.keep('lens', layer, ['batch', 'seq', 'vocab'], [head(tensors, config, x[-1:])])
    stages.keep('logits', -1, ['batch', 'seq', 'vocab'], [head(tensors, config, x[-1:])])
    learn(tensors, config, ids, x, stages)
    return stages


def learn(tensors, config, ids, x, stages):
    """The loss of predicting each next token, and its gradient down to the output of the final norm."""
    labels, count = ids[1:] + [-100], len(ids) - 1
    stages.keep('labels', -1, ['batch', 'seq'], [ids])
    stages.keep('shifted_labels', -1, ['batch', 'seq'], [labels])
    shares = [softmax(row) for row in head(tensors, config, x)]
    losses = [0.0 if label < 0 else -math.log(row[label]) for row, label in zip(shares, labels)]
    stages.keep('token_losses', -1, ['batch', 'seq'], [losses])
    stages.keep('loss', -1, ['loss'], [math.fsum(losses) / count])
    gradients = [[0.0 if label < 0 else (share - (token == label)) / count for token, share in enumerate(row)]
                 for row, label in zip(shares, labels)]
    stages.keep('d_logits', -1, ['batch', 'seq', 'vocab'], [gradients])
    weight = tensors.get('lm_head.weight', tensors['model.embed_tokens.weight'])
    columns = list(zip(*weight))
    stages.keep('d_norm', -1, ['batch', 'seq', 'hidden'], [[[dot(row, column) for column in columns] for row in gradients]])
