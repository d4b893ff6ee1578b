#!/usr/bin/env python3
"""Trains the embedded model "fables" from nothing: corpus, tokenizer, weights, and a score.

  /usr/bin/python3 train_bootstrap.py --make-fables ../../../build/debug/examples/make_fables

Needs Debian's python3-torch and python3-sentencepiece. Every story comes from make_fables, so the grammar
is written down once, in examples/support/fables.cpp. The files are those of a Hugging Face folder of a
LlamaForCausalLM, written here by hand so that one can see what is in them. Not run by the tests.
"""
import argparse
import collections
import json
import math
import os
import struct
import subprocess
import tempfile
import time

import sentencepiece
import torch
import torch.nn.functional as F

UNK, BOS, EOS = 0, 1, 2
KINDS = ["pronoun", "name", "thing", "colour", "place"]
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "head_dim": 32,
    "hidden_act": "silu",
    "hidden_size": 128,
    "initializer_range": 0.02,
    "intermediate_size": 344,
    "max_position_embeddings": 256,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 4,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
    "use_cache": True,
    "vocab_size": 1000,
}


# ------------------------------------------------------------------------------------------------ stories
def make_fables(program, *options):
    """The lines that make_fables writes."""
    run = subprocess.run([program, *options], stdout=subprocess.PIPE, check=True, encoding="utf-8")
    return run.stdout.split("\n")[:-1]


# ---------------------------------------------------------------------------------------------- tokenizer
def read_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def set_add_dummy_prefix(model):
    """Sets ModelProto.normalizer_spec (field 3) .add_dummy_prefix (field 3) to true."""
    data, at = bytearray(model), 0
    while at < len(data):
        key, at = read_varint(data, at)
        size, at = read_varint(data, at)  # every field of ModelProto is a message: a length, then that many bytes
        if key >> 3 == 3:
            inner = at
            while inner < at + size:
                key, inner = read_varint(data, inner)
                if key >> 3 == 3:
                    data[inner] = 1
                length, inner = read_varint(data, inner)
                if key & 7 == 2:
                    inner += length
        at += size
    return bytes(data)


def train_tokenizer(program, path):
    """BPE in which no piece reaches over a word of the grammar.

    Chinese has no spaces, so training on stories would merge whole clauses. BPE only merges what it sees side
    by side: here each line is one word (English: with its space) and how often stories use it, so nothing but
    words and their parts can become a piece. For that the line must not get a space of its own in front
    (add_dummy_prefix false); the finished model adds one to a text, as Llama's does, so that a word at its
    start is the same piece as elsewhere.
    """
    words = collections.Counter()
    for language in ["en", "zh"]:
        words.update(make_fables(program, "--count", "5000", "--language", language, "--format", "words"))
        for word in make_fables(program, "--language", language, "--format", "values"):
            words[word] *= 10  # names, colours and the like must be one piece each
    for character in range(33, 127):
        words.setdefault(chr(character), 1)  # any ASCII text in letters rather than in bytes
    with tempfile.TemporaryDirectory() as folder:
        corpus = os.path.join(folder, "words.tsv")
        with open(corpus, "w", encoding="utf-8") as file:
            for word, count in sorted(words.items()):
                file.write(f"{word}\t{count}\n")
        here = os.getcwd()
        os.chdir(folder)  # the model remembers the names given here: bare ones
        sentencepiece.SentencePieceTrainer.train(
            input="words.tsv", input_format="tsv", model_prefix="tokenizer", model_type="bpe",
            vocab_size=CONFIG["vocab_size"], byte_fallback=True, character_coverage=1.0,
            normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=False,
            split_by_unicode_script=False, split_digits=True, unk_id=UNK, bos_id=BOS, eos_id=EOS, pad_id=-1,
            num_threads=1, minloglevel=1)
        os.chdir(here)
        with open(os.path.join(folder, "tokenizer.model"), "rb") as file:
            model = set_add_dummy_prefix(file.read())
    with open(path, "wb") as file:
        file.write(model)


def piece_size(tokenizer, token):
    """Bytes of text that a piece stands for."""
    if tokenizer.is_byte(token):
        return 1
    return len(tokenizer.id_to_piece(token).replace("\u2581", " ").encode("utf-8"))


def encode_story(tokenizer, line):
    """A line of `make_fables --format forced` -> token ids with BOS and EOS, and {token index: kind}."""
    text, *spans = line.split("\t")
    ids = [BOS] + tokenizer.encode(text) + [EOS]
    index_at, offset = {}, -1  # -1: the space that the tokenizer puts in front
    for index in range(1, len(ids) - 1):
        index_at[max(offset, 0)] = index
        offset += piece_size(tokenizer, ids[index])
    forced = {}
    for span in spans:
        kind, begin, _ = span.split(":")
        forced[index_at[int(begin)]] = kind
    return ids, forced


# -------------------------------------------------------------------------------------------------- model
class RMSNorm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(CONFIG["hidden_size"]))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + CONFIG["rms_norm_eps"]) * self.weight


def rope_tables(length):
    """cos and sin [position, head_dim]; the angle of pair (i, i + head_dim / 2) stands at both places."""
    dim = CONFIG["head_dim"]
    frequency = CONFIG["rope_theta"] ** (-torch.arange(0, dim, 2).float() / dim)
    angle = torch.outer(torch.arange(length).float(), frequency)
    angle = torch.cat([angle, angle], dim=-1)
    return angle.cos(), angle.sin()


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        hidden, dim = CONFIG["hidden_size"], CONFIG["head_dim"]
        heads, kv_heads = CONFIG["num_attention_heads"], CONFIG["num_key_value_heads"]
        self.q_proj = torch.nn.Linear(hidden, heads * dim, bias=False)
        self.k_proj = torch.nn.Linear(hidden, kv_heads * dim, bias=False)
        self.v_proj = torch.nn.Linear(hidden, kv_heads * dim, bias=False)
        self.o_proj = torch.nn.Linear(heads * dim, hidden, bias=False)

    def forward(self, x, cos, sin, mask):
        batch, length, _ = x.shape
        dim, groups = CONFIG["head_dim"], CONFIG["num_attention_heads"] // CONFIG["num_key_value_heads"]
        query = self.q_proj(x).view(batch, length, -1, dim).transpose(1, 2)  # [batch, head, position, head_dim]
        key = self.k_proj(x).view(batch, length, -1, dim).transpose(1, 2)
        value = self.v_proj(x).view(batch, length, -1, dim).transpose(1, 2)
        query = query * cos + rotate_half(query) * sin
        key = key * cos + rotate_half(key) * sin
        key = key.repeat_interleave(groups, dim=1)
        value = value.repeat_interleave(groups, dim=1)
        scores = query @ key.transpose(2, 3) / math.sqrt(dim) + mask
        context = scores.softmax(dim=-1) @ value
        return self.o_proj(context.transpose(1, 2).reshape(batch, length, -1))


class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        hidden, intermediate = CONFIG["hidden_size"], CONFIG["intermediate_size"]
        self.gate_proj = torch.nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = torch.nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = torch.nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn = Attention()
        self.mlp = MLP()
        self.input_layernorm = RMSNorm()
        self.post_attention_layernorm = RMSNorm()

    def forward(self, x, cos, sin, mask):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class LlamaModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = torch.nn.Embedding(CONFIG["vocab_size"], CONFIG["hidden_size"])
        self.layers = torch.nn.ModuleList(DecoderLayer() for _ in range(CONFIG["num_hidden_layers"]))
        self.norm = RMSNorm()


class LlamaForCausalLM(torch.nn.Module):
    """The parameters have the names of the checkpoint: model.layers.0.self_attn.q_proj.weight ..."""

    def __init__(self):
        super().__init__()
        self.model = LlamaModel()
        for parameter in self.parameters():
            if parameter.dim() == 2:
                torch.nn.init.normal_(parameter, std=CONFIG["initializer_range"])

    def forward(self, ids):
        length = ids.shape[1]
        cos, sin = rope_tables(length)
        mask = torch.full((length, length), float("-inf")).triu(1)
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            x = layer(x, cos, sin, mask)
        return self.model.norm(x) @ self.model.embed_tokens.weight.T  # tied


# -------------------------------------------------------------------------------------------------- files
def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
        file.write("\n")


def write_config(folder):
    write_json(folder, "config.json", CONFIG)
    write_json(folder, "generation_config.json", {"bos_token_id": BOS, "eos_token_id": EOS, "do_sample": False})
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    write_json(folder, "special_tokens_map.json", special)
    write_json(folder, "tokenizer_config.json",
               {"add_bos_token": True, "add_eos_token": False, **special, "clean_up_tokenization_spaces": False,
                "legacy": True, "model_max_length": CONFIG["max_position_embeddings"], "pad_token": None,
                "sp_model_kwargs": {}, "tokenizer_class": "LlamaTokenizer"})


def write_safetensors(folder, tensors):
    """8 bytes little-endian: size of the header; the header, JSON; the data of all tensors, end to end."""
    header, data = {"__metadata__": {"format": "pt"}}, []
    offset = 0
    for name, tensor in tensors.items():
        raw = tensor.detach().contiguous().numpy().astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
        data.append(raw)
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    path = os.path.join(folder, "model.safetensors")
    with open(path + ".part", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(data)
    os.replace(path + ".part", path)


def read_safetensors(folder):
    with open(os.path.join(folder, "model.safetensors"), "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = bytearray(file.read())
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(data, dtype=torch.float32, offset=entry["data_offsets"][0],
                                   count=math.prod(entry["shape"])).view(entry["shape"])
            for name, entry in header.items()}


# ----------------------------------------------------------------------------------------------- training
def to_batch(stories, forced_weight=1.0, recallable=frozenset()):
    """Ids [batch, position], padded on the right with EOS, and how much each counts in the loss: padding 0, a
    word that the story forces or a name, thing, ... that comes again forced_weight, all others 1."""
    length = max(len(ids) for ids, _ in stories)
    batch = torch.full((len(stories), length), EOS)
    weights = torch.zeros(len(stories), length)
    for row, (ids, forced) in enumerate(stories):
        batch[row, : len(ids)] = torch.tensor(ids)
        weights[row, : len(ids)] = 1
        weights[row, list(forced)] = forced_weight
        seen = set()
        for index, token in enumerate(ids):
            if token in seen:
                weights[row, index] = forced_weight
            elif token in recallable:
                seen.add(token)
    return batch, weights


def beginning(story, length):
    ids, forced = story
    return ids[:length], {index: kind for index, kind in forced.items() if index < length}


def recallable_tokens(tokenizer, program):
    """The pieces of all names, things, colours, places, animals and pronouns."""
    words = make_fables(program, "--format", "values")
    return frozenset(tokenizer.piece_to_id(word.replace(" ", "\u2581")) for word in words)


def batches(tokenizer, lines, options, generator):
    """Endless batches, each story once before any comes again. The first ones hold only beginnings of stories:
    where attention has less to search, it finds sooner what there is to recall. Once it does, every word
    counts alike, so that the stories become whole ones."""
    recallable = recallable_tokens(tokenizer, options.make_fables)
    step = 0
    while True:
        order = torch.randperm(len(lines), generator=generator).tolist()
        for start in range(0, len(order) - options.batch + 1, options.batch):
            stories = [encode_story(tokenizer, lines[i]) for i in order[start : start + options.batch]]
            if step < options.short_steps:
                stories = [beginning(story, options.short_length) for story in stories]
            weight = options.forced_weight if step < options.weighted_steps else options.final_weight
            yield to_batch(stories, weight, recallable)
            step += 1


def learning_rate(step, options):
    """Up in 100 steps, level for most of the way (recall is learned suddenly, and only then), then down."""
    warmup = min(1.0, (step + 1) / 100)
    down = min(1.0, (options.steps - step) / (0.3 * options.steps))
    return options.learning_rate * warmup * max(0.01, down)


@torch.no_grad()
def score(model, stories):
    """{kind: (right, all)}: greedy next word at each forced word, given the true story up to it."""
    right, total = collections.Counter(), collections.Counter()
    for start in range(0, len(stories), 50):
        part = stories[start : start + 50]
        best = model(to_batch(part)[0]).argmax(-1)
        for row, (ids, forced) in enumerate(part):
            for index, kind in forced.items():
                total[kind] += 1
                right[kind] += int(best[row, index - 1] == ids[index])
    return {kind: (right[kind], total[kind]) for kind in KINDS}


def held_out_stories(program, tokenizer, language, count):
    lines = make_fables(program, "--count", str(count), "--language", language, "--split", "held-out", "--seed",
                        "2", "--format", "forced")
    return [encode_story(tokenizer, line) for line in lines]


@torch.no_grad()
def free_running(model, tokenizer, program, prompt, count, temperature, generator):
    """Writes stories from the prompt; the share that the grammar accepts, and the first story."""
    ids = torch.tensor([[BOS] + tokenizer.encode(prompt)]).repeat(count, 1)
    ended = torch.zeros(count, dtype=torch.bool)
    while not ended.all() and ids.shape[1] < CONFIG["max_position_embeddings"]:
        logits = model(ids)[:, -1]
        if temperature == 0:
            following = logits.argmax(-1)
        else:
            following = torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)[:, 0]
        following[ended] = EOS
        ended |= following == EOS
        ids = torch.cat([ids, following[:, None]], dim=1)
    texts = [tokenizer.decode([i for i in row if i not in (BOS, EOS)]).replace("\n", " ") for row in ids.tolist()]
    check = subprocess.run([program, "--check", "-"], input="".join(t + "\n" for t in texts), encoding="utf-8",
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return int(check.stdout.split("\n")[-2].split()[0]) / count, texts[0]


def report(model, tokenizer, options):
    for language, prompt in [("en", "Once upon a time"), ("zh", "从前")]:
        stories = held_out_stories(options.make_fables, tokenizer, language, options.stories)
        print(f"{language}: {len(stories)} held-out stories, mean {sum(len(s[0]) for s in stories) / len(stories):.0f} tokens")
        for kind, (right, total) in score(model, stories).items():
            print(f"  {kind:8} {right:6} of {total:6}  {100 * right / total:6.2f} %")
        generator = torch.Generator().manual_seed(1)
        for temperature, count in [(0, 1), (1, 100)]:
            share, text = free_running(model, tokenizer, options.make_fables, prompt, count, temperature, generator)
            print(f"  temperature {temperature}: {100 * share:.1f} % of {count} stories follow the grammar, e.g. {text}")


def train(options):
    os.makedirs(options.output, exist_ok=True)
    write_config(options.output)
    tokenizer_path = os.path.join(options.output, "tokenizer.model")
    if not options.keep_tokenizer and not options.resume:
        train_tokenizer(options.make_fables, tokenizer_path)
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=tokenizer_path)
    assert tokenizer.get_piece_size() == CONFIG["vocab_size"]
    lines = make_fables(options.make_fables, "--count", str(options.corpus), "--split", "train", "--seed", "1",
                        "--format", "forced")
    held_out = {language: held_out_stories(options.make_fables, tokenizer, language, 100) for language in ["en", "zh"]}
    torch.manual_seed(options.seed)
    model = LlamaForCausalLM()
    if options.resume:
        model.load_state_dict(read_safetensors(options.output))
    decayed = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  betas=(0.9, 0.95))
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(lines)} stories", flush=True)
    data = batches(tokenizer, lines, options, torch.Generator().manual_seed(options.seed))
    start, tokens = time.time(), 0
    for step in range(options.steps):
        ids, weights = next(data)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, options)
        logits = model(ids[:, :-1])
        losses = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        weights = weights[:, 1:].flatten()  # position i predicts token i + 1
        loss = (losses * weights).sum() / weights.sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        tokens += ids.numel()
        if (step + 1) % 100 == 0:
            seconds = time.time() - start
            print(f"step {step + 1} of {options.steps}, loss {loss.item():.4f}, {tokens / seconds:.0f} tokens/s, "
                  f"{seconds:.0f} s", flush=True)
        if (step + 1) % options.every == 0 or step + 1 == options.steps:
            for language in ["en", "zh"]:
                shares = score(model, held_out[language])
                print(f"  {language}", *[f"{kind} {100 * r / n:.1f}" for kind, (r, n) in shares.items()], flush=True)
            write_safetensors(options.output, dict(model.named_parameters()))
    return model, tokenizer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--make-fables", required=True, help="the program built from examples/make_fables.cpp")
    parser.add_argument("--output", default=os.path.dirname(os.path.abspath(__file__)), help="folder to write")
    parser.add_argument("--steps", type=int, default=4200)
    parser.add_argument("--batch", type=int, default=16, help="stories in a step")
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--forced-weight", type=float, default=30.0, help="loss weight of recalled words")
    parser.add_argument("--short-steps", type=int, default=1000, help="so many first steps see beginnings of stories only")
    parser.add_argument("--short-length", type=int, default=48, help="tokens of a story in those steps")
    parser.add_argument("--weighted-steps", type=int, default=2000, help="so many first steps use that weight")
    parser.add_argument("--final-weight", type=float, default=4.0, help="their loss weight from then on")
    parser.add_argument("--corpus", type=int, default=160000, help="stories in the corpus")
    parser.add_argument("--every", type=int, default=250, help="steps between scores (and saved weights)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--stories", type=int, default=1000, help="held-out stories per language in the final score")
    parser.add_argument("--resume", action="store_true", help="go on from the weights that are there")
    parser.add_argument("--keep-tokenizer", action="store_true", help="use the tokenizer.model that is there")
    parser.add_argument("--score", action="store_true", help="only score the model that is there")
    options = parser.parse_args()
    options.make_fables = os.path.abspath(options.make_fables)
    torch.set_num_threads(options.threads)
    if options.score:
        tokenizer = sentencepiece.SentencePieceProcessor(model_file=os.path.join(options.output, "tokenizer.model"))
        model = LlamaForCausalLM()
        model.load_state_dict(read_safetensors(options.output))
    else:
        model, tokenizer = train(options)
    report(model, tokenizer, options)


if __name__ == "__main__":
    main()
