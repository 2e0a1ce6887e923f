"""The other side of tests/lm_eval.rs: what lm-evaluation-harness measures of an exported model.

    check_lm_eval.py FOLDER RAW PASSAGES OUT

writes its numbers for the tasks `wikitext` (on the pages of the raw split RAW) and `lambada_openai`
(on the JSONL file PASSAGES), and what it makes of each page and passage, to the JSON file OUT.
"""

import json
import sys
from pathlib import Path

import lm_eval
from lm_eval.models.huggingface import HFLM


def pages_of(raw):
    """The pages that EleutherAI/wikitext_document_level has of a raw split."""
    pages, page = [], []
    for line in raw.split("\n"):
        title = line.replace("= = =", "===").replace("= =", "==").strip()
        if title[:2] == "= " and title[-2:] == " =":
            pages.append(page)
            page = []
        page.append(line)
    texts = ["\n".join(lines) for lines in pages]
    return [text for text in texts if text.strip()] + ["\n".join(page)]


def local(task, records):
    """The package's own task, on records of a file in place of its data set."""
    own = next(Path(lm_eval.__file__).parent.glob(f"tasks/*/{task}.yaml"))
    config = dict(
        include=str(own),
        dataset_path="json",
        dataset_name=None,
        dataset_kwargs={"data_files": {"test": str(records.absolute())}},
        training_split=None,
        validation_split=None,
    )
    path = records.with_name(f"{task}.yaml")
    path.write_text(json.dumps(config))  # JSON is YAML
    return str(path)


def main(folder, raw, passages, out):
    pages = raw.with_suffix(".pages.jsonl")
    # As `open` reads them: every end of a line is a line feed.
    records = [json.dumps({"page": page}) + "\n" for page in pages_of(raw.read_text("utf-8"))]
    pages.write_text("".join(records))
    model = HFLM(pretrained=str(folder), device="cpu", dtype="float32", batch_size=3)
    tasks = [local("wikitext", pages), local("lambada_openai", passages)]
    found = lm_eval.simple_evaluate(model=model, tasks=tasks, bootstrap_iters=2)
    numbers = {
        task: {name.removesuffix(",none"): value for name, value in metrics.items()}
        for task, metrics in found["results"].items()
    }
    samples = {
        task: [sample["filtered_resps"][0] for sample in sorted(samples, key=lambda it: it["doc_id"])]
        for task, samples in found["samples"].items()
    }
    versions = {"lm_eval": lm_eval.__version__, "max_length": model.max_length}
    out.write_text(json.dumps(dict(results=numbers, samples=samples, **versions), default=str))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
