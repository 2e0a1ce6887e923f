"""The other side of tests/transformers.rs: what `transformers` makes of our models, and models of its own.

    check_transformers.py out FOLDER EXPECTED [TEXTS]   load FOLDER and compare logits (and tokens of texts) with ours
    check_transformers.py in FOLDER                     write models with their logits to FOLDER
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel

TOLERANCE = 1e-4


def logits_of(model, tokens):
    with torch.no_grad():
        return model.eval()(tokens[None]).logits[0].contiguous()


def check_out(folder, expected, texts):
    model, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    # The tied head has no tensor of its own, and is not missing.
    missing = set(report["missing_keys"]) - {"lm_head.weight"}
    assert not missing and not report["unexpected_keys"], report
    assert model.dtype == torch.float32, model.dtype
    ours = load_file(expected)
    theirs = logits_of(model, ours["tokens"])
    assert theirs.shape == ours["logits"].shape, (theirs.shape, ours["logits"].shape)
    largest = (theirs - ours["logits"]).abs().max().item()
    assert largest < TOLERANCE, f"logits differ by {largest:.2e}"
    print(f"{folder.name}: logits within {largest:.1e}, of up to {theirs.abs().max().item():.2f}")
    if texts is None:
        return
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for text in json.loads(texts.read_text()):
        # A special token's name in a text is text to us.
        tokens = tokenizer.encode(text["text"], add_special_tokens=False, split_special_tokens=True)
        assert tokens == text["tokens"], (text, tokens)
    assert tokenizer.eos_token_id == model.config.eos_token_id, tokenizer.eos_token_id
    print(f"{folder.name}: {type(tokenizer).__name__} encodes alike")


def make(folder):
    torch.manual_seed(1)
    sizes = dict(n_layer=3, n_head=4, n_embd=64, n_positions=32, vocab_size=301)
    whole = GPT2LMHeadModel(GPT2Config(activation_function="gelu_new", n_inner=96, **sizes))
    exact = GPT2LMHeadModel(GPT2Config(activation_function="gelu", **sizes))
    half = GPT2LMHeadModel(GPT2Config(**sizes)).half()
    for name, model, shard in [("whole", whole, "1GB"), ("sharded", exact, "200KB"), ("half", half, "1GB")]:
        # Larger than at the start of training, so that attention and activations matter.
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
        model.save_pretrained(folder / name, max_shard_size=shard)
        tokens = torch.randint(0, 301, (32,))
        expected = {"tokens": tokens, "logits": logits_of(model.float(), tokens)}
        save_file(expected, folder / name / "expected.safetensors")
    assert len(list((folder / "sharded").glob("model-*.safetensors"))) > 1


if __name__ == "__main__":
    what, folder = sys.argv[1], Path(sys.argv[2])
    if what == "out":
        check_out(folder, Path(sys.argv[3]), Path(sys.argv[4]) if len(sys.argv) > 4 else None)
    else:
        make(folder)
