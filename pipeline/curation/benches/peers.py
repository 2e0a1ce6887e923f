#!/usr/bin/env python3
"""Near-duplicate removal beside other tools, on one JSONL file, in one run.

    python3 pipeline/curation/benches/peers.py CORPUS.jsonl [--rounds 3] [--tools pipeline,gaoya,...] [--truth FILE]

Every tool that is installed (`pip install gaoya rensa datasketch datatrove spacy tokenizers "xxhash<4"`) takes the texts
from the file to the list of documents that go, with word 5-grams and Jaccard similarity 0.7, each in a process of its own.
The tools take turns, round after round, so that what else the machine does falls on all of them. Starting a process and
importing a library does not count; reading the file does. `pipeline` is the benchmark `near_duplicates` of this crate,
which is built first.

Each tool's removals are held against the true pairs, which are computed here without any of the tools: every pair of
documents above 0.7, by the exact intersection of the sets of 5-grams. With `--truth FILE` they are kept for the next run.
The rule is that of `pipeline`: a document goes if an earlier one that stays is above 0.7. *Wrong* are documents that go
and have no near-duplicate at all; *missed* are those that the rule still removes from what a tool leaves.

The result is a table in Markdown.
"""

import argparse
import collections
import datetime
import importlib.util
import json
import multiprocessing
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

WORD = re.compile(r"\w+")
THRESHOLD = 0.7


# Tools. Each takes the path of the corpus and answers with the numbers of the documents that go.


def gaoya(path):
    from gaoya.minhash import MinHashStringIndex

    texts = load(path)
    index = MinHashStringIndex(
        hash_size=32,
        jaccard_threshold=THRESHOLD,
        num_bands=32,
        band_size=4,
        num_hashes=None,
        analyzer="word",
        lowercase=True,
        ngram_range=(5, 5),
    )
    index.par_bulk_insert_docs(list(range(len(texts))), texts)
    return removals_of(index.par_bulk_query(texts))


def rensa(path):
    from rensa import RMinHash, RMinHashLSH

    texts = load(path)
    with multiprocessing.Pool() as pool:
        sets = pool.map(shingles, texts, 64)
    hashes = RMinHash.from_token_sets(sets, num_perm=128, seed=42)
    index = RMinHashLSH(threshold=THRESHOLD, num_perm=128, num_bands=16)
    index.insert_many(hashes, start_key=0)
    return removals_of(index.query_all(hashes))


def datasketch(path):
    from datasketch import MinHashLSH

    with multiprocessing.Pool() as pool:
        hashes = pool.map(datasketch_signature, load(path), 64)
    index = MinHashLSH(threshold=THRESHOLD, num_perm=128)
    for number, signature in enumerate(hashes):
        index.insert(number, signature)
    return removals_of(index.query(signature) for signature in hashes)


def datasketch_signature(text):
    from datasketch import MinHash

    signature = MinHash(num_perm=128, seed=1)
    signature.update_batch([shingle.encode() for shingle in shingles(text)])
    return signature


def datatrove(path):
    """Its four stages. It keeps one document of each connected component, whichever its union-find favors."""
    from datatrove.executor.local import LocalPipelineExecutor
    from datatrove.pipeline.dedup import minhash
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter
    from datatrove.utils.hashing import HashConfig

    config = minhash.MinhashConfig(hash_config=HashConfig(precision=64), num_buckets=14, hashes_per_bucket=8)
    workers = os.cpu_count()
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as work:
        os.mkdir(f"{work}/in")
        outputs = [open(f"{work}/in/{part}.jsonl", "w") for part in range(workers)]
        texts = load(path)
        for number, text in enumerate(texts):
            part = number * workers // len(texts)
            outputs[part].write(json.dumps({"id": str(number), "text": text}) + "\n")
        for output in outputs:
            output.close()
        reader = lambda: JsonlReader(f"{work}/in")
        stages = [
            ([reader(), minhash.MinhashDedupSignature(f"{work}/signatures", config=config)], workers),
            ([minhash.MinhashDedupBuckets(f"{work}/signatures", f"{work}/buckets", config=config)], config.num_buckets),
            ([minhash.MinhashDedupCluster(f"{work}/buckets", f"{work}/clusters", config=config)], 1),
            (
                [
                    reader(),
                    minhash.MinhashDedupFilter(f"{work}/clusters"),
                    JsonlWriter(f"{work}/out", compression=None),
                ],
                workers,
            ),
        ]
        for number, (stage, tasks) in enumerate(stages):
            LocalPipelineExecutor(
                pipeline=stage, tasks=tasks, workers=workers, logging_dir=f"{work}/log{number}"
            ).run()
        kept = {
            int(json.loads(line)["id"]) for name in os.listdir(f"{work}/out") for line in open(f"{work}/out/{name}")
        }
        return set(range(len(texts))) - kept


TOOLS = {tool.__name__: tool for tool in (gaoya, rensa, datasketch, datatrove)}
SETTINGS = {
    "pipeline": "26 bands x 5, each pair checked",
    "gaoya": "32 bands x 4, each pair checked by signature",
    "rensa": "16 bands x 8",
    "datasketch": "its own bands for 0.7",
    "datatrove": "14 buckets x 8",
}


def load(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


def shingles(text):
    """The distinct word 5-grams of a text; a shorter text is one."""
    words = WORD.findall(text.lower())
    if len(words) < 5:
        return [" ".join(words)] if words else []
    return list({" ".join(words[start : start + 5]) for start in range(len(words) - 4)})


def removals_of(candidates):
    """The documents that go, given for each document the numbers of those that are like it."""
    removed = set()
    for number, similar in enumerate(candidates):
        if any(other < number and other not in removed for other in similar):
            removed.add(number)
    return removed


# The truth.


def true_pairs(texts):
    """All pairs of documents above 0.7, by prefix filtering.

    Two sets above 0.7 share an element among the rarest 30% of each, so that only documents which share such an element
    are compared.
    """
    import numpy

    sets = [numpy.unique(numpy.fromiter(map(hash, shingles(text)), dtype=numpy.int64)) for text in texts]
    values, counts = numpy.unique(numpy.concatenate(sets), return_counts=True)
    holders = collections.defaultdict(list)
    pairs = []
    for number, own in enumerate(sets):
        own_counts = counts[numpy.searchsorted(values, own)]
        rarest_first = own[numpy.lexsort((own, own_counts))]
        prefix = rarest_first[: len(own) - (7 * len(own) + 9) // 10 + 1]
        shared = prefix[counts[numpy.searchsorted(values, prefix)] > 1].tolist()
        candidates = set()
        for shingle in shared:
            candidates.update(holders[shingle])
            holders[shingle].append(number)
        for other in candidates:
            smaller, larger = sorted((len(own), len(sets[other])))
            if 10 * smaller > 7 * larger:
                common = len(numpy.intersect1d(own, sets[other], assume_unique=True))
                if 10 * common > 7 * (smaller + larger - common):
                    pairs.append((other, number))
    return pairs


def read_or_compute_truth(path, texts):
    if path and os.path.exists(path):
        with open(path) as lines:
            return [tuple(map(int, line.split("\t"))) for line in lines]
    print("computing the true pairs", file=sys.stderr)
    pairs = true_pairs(texts)
    if path:
        with open(path, "w") as out:
            out.writelines(f"{earlier}\t{later}\n" for earlier, later in pairs)
    return pairs


class Truth:
    """Who is like whom, and what a list of removals is worth."""

    def __init__(self, texts, pairs):
        self.earlier = collections.defaultdict(list)
        self.like_another = set()
        first = {}
        for number, text in enumerate(texts):
            if text in first:
                pairs.append((first[text], number))
            first.setdefault(text, number)
        for earlier, later in pairs:
            self.earlier[later].append(earlier)
            self.like_another.update((earlier, later))
        self.documents = len(texts)

    def greedy(self, documents):
        """The documents that the rule removes from some."""
        removed = set()
        for number in sorted(documents):
            likes = (other for other in self.earlier.get(number, ()) if other in documents)
            if any(other not in removed for other in likes):
                removed.add(number)
        return removed

    def score(self, removed):
        wrong = sum(number not in self.like_another for number in removed)
        missed = len(self.greedy(set(range(self.documents)) - set(removed)))
        return wrong, missed


# The run.


def worker(tool, path):
    """One pass of one tool, as a line of JSON on standard output."""
    started = time.perf_counter()
    removed = TOOLS[tool](path)
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "removed": sorted(removed)}))


def build():
    command = ["cargo", "bench", "-p", "curation", "--bench", "near_duplicates", "--no-run", "--message-format=json"]
    built = subprocess.run(command, cwd=os.path.dirname(__file__) or ".", stdout=subprocess.PIPE, check=True)
    messages = map(json.loads, built.stdout.splitlines())
    return [message["executable"] for message in messages if message.get("executable")][-1]


def one_round(tool, path, executable):
    """Seconds, the removed documents and the peak memory in MB of one pass."""
    if tool == "pipeline":
        command = [executable, path, "--runs", "1", "--json"]
    else:
        command = [sys.executable, __file__, path, "--worker", tool]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        lines = process.stdout.read().splitlines()
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            errors.seek(0)
            last = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
            print(f"{tool} failed and is left out: {last}", file=sys.stderr)
            return None
    result = json.loads(lines[-1])
    seconds = result["seconds"][0] if tool == "pipeline" else result["seconds"]
    return seconds, result["removed"], usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tools", type=lambda names: names.split(","))
    parser.add_argument("--truth")
    parser.add_argument("--worker", choices=TOOLS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    path = os.path.abspath(arguments.corpus)
    if arguments.worker:
        worker(arguments.worker, path)
        return

    installed = ["pipeline"] + [tool for tool in TOOLS if importlib.util.find_spec(tool)]
    tools = arguments.tools or installed
    executable = build() if "pipeline" in tools else None
    texts = load(path)
    truth = Truth(texts, read_or_compute_truth(arguments.truth, texts))
    megabytes = os.path.getsize(path) / 1e6

    passes = collections.defaultdict(list)
    for number in range(arguments.rounds):
        for tool in list(tools):
            print(f"round {number + 1}: {tool}", file=sys.stderr)
            result = one_round(tool, path, executable)
            if result is None:
                tools.remove(tool)
            else:
                passes[tool].append(result)

    date, cores = datetime.date.today().isoformat(), os.cpu_count()
    print(f"{len(texts):,} documents, {megabytes:.1f} MB; {processor()}, {cores} threads; {date}; ", end="")
    print(f"median of {arguments.rounds}; {len(truth.greedy(range(len(texts)))):,} documents should go\n")
    print("| tool | settings | MB/s | slowest to fastest | peak memory, MB | removed | wrong | missed |")
    print("|---|---|---|---|---|---|---|---|")
    for tool in tools:
        seconds = [seconds for seconds, _, _ in passes[tool]]
        removed = passes[tool][0][1]
        rate = lambda value: f"{megabytes / value:.1f}"
        wrong, missed = truth.score(removed)
        print(
            f"| {tool} | {SETTINGS[tool]} | {rate(statistics.median(seconds))} | {rate(max(seconds))} to "
            f"{rate(min(seconds))} | {max(memory for _, _, memory in passes[tool]):,.0f} | {len(removed):,} | "
            f"{wrong:,} | {missed:,} |"
        )


def processor():
    """The name of the processor, where the system tells."""
    try:
        with open("/proc/cpuinfo") as lines:
            names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
        return names[0]
    except (OSError, IndexError):
        return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
