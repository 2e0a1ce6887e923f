"""The other side of tests/bert/peers.rs: what `transformers` makes of our BERTs, and BERTs of its own.

    check_bert.py out FOLDER EXPECTED   load FOLDER and compare the logits of both heads with ours
    check_bert.py in FOLDER             write models of both arrangements with their logits to FOLDER
"""

import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, BertConfig, BertForPreTraining, MegatronBertConfig, MegatronBertForPreTraining

TOLERANCE = 1e-4


def heads_of(model, inputs):
    """Logits of both heads; those of padding are set to 0."""
    with torch.no_grad():
        output = model.eval()(
            input_ids=inputs["tokens"], token_type_ids=inputs["types"], attention_mask=inputs["mask"]
        )
    masked_lm = output.prediction_logits * inputs["mask"][:, :, None]
    return masked_lm.contiguous(), output.seq_relationship_logits.contiguous()


def check_out(folder, expected):
    name = AutoConfig.from_pretrained(folder).architectures[0]
    model, report = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
    # The tied output layer has no tensors of its own, and is not missing.
    missing = {key for key in report["missing_keys"] if not key.startswith("cls.predictions.decoder.")}
    assert not missing and not report["unexpected_keys"], report
    ours = load_file(expected)
    for what, theirs in zip(["masked_lm", "order"], heads_of(model, ours)):
        assert theirs.shape == ours[what].shape, (what, theirs.shape, ours[what].shape)
        largest = (theirs - ours[what]).abs().max().item()
        assert largest < TOLERANCE, f"{what}: logits differ by {largest:.2e}"
        print(f"{name}, {what}: within {largest:.1e}, of up to {theirs.abs().max().item():.2f}")


def make(folder):
    torch.manual_seed(1)
    sizes = dict(
        num_hidden_layers=3, num_attention_heads=4, hidden_size=64, intermediate_size=96,
        max_position_embeddings=32, vocab_size=301,
    )
    for name, model in [
        ("post-norm", BertForPreTraining(BertConfig(**sizes))),
        ("pre-norm", MegatronBertForPreTraining(MegatronBertConfig(**sizes))),
    ]:
        # Larger than at the start of training, so that attention and activations matter.
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
        model.save_pretrained(folder / name)
        lengths = torch.tensor([32, 20, 7])
        mask = (torch.arange(32)[None] < lengths[:, None]).long()
        types = ((torch.arange(32)[None] >= lengths[:, None] // 2) & mask.bool()).long()
        inputs = {"tokens": torch.randint(0, 301, (3, 32)), "types": types, "mask": mask}
        masked_lm, order = heads_of(model, inputs)
        save_file(inputs | {"masked_lm": masked_lm, "order": order}, folder / name / "expected.safetensors")


if __name__ == "__main__":
    what, folder = sys.argv[1], Path(sys.argv[2])
    if what == "out":
        check_out(folder, Path(sys.argv[3]))
    else:
        make(folder)
