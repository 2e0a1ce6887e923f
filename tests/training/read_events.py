"""Reads a run's event files with TensorBoard's own reader and compares them with metrics.jsonl.

    python3 read_events.py RUN

Exits with 0 when every value is there once and as written, with 1 when not, and with 77 when the
package `tensorboard` is not installed (`pip install tensorboard`).
"""

import json
import sys
from pathlib import Path

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    sys.exit(77)

STEP_TAGS = ["loss", "grad_norm", "learning_rate", "loss_scale", "tokens_per_second"]


def near(left, right):
    """Whether two numbers are the same in 32 bits."""
    return abs(left - right) <= 1e-6 * max(abs(left), abs(right))


def main(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    # 0 keeps every value: the reader samples by default.
    events = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    shown = set(events.Tags()["scalars"])
    for tag in STEP_TAGS + ["validation_loss"]:
        expected = [(line["step"], line[tag]) for line in lines if line.get(tag) is not None]
        found = [(event.step, event.value) for event in events.Scalars(tag)] if tag in shown else []
        if [step for step, _ in found] != [step for step, _ in expected]:
            sys.exit(f"{tag}: steps {[step for step, _ in found]}, expected {[s for s, _ in expected]}")
        for (step, value), (_, written) in zip(found, expected):
            if not near(value, written):
                sys.exit(f"{tag} of step {step}: {value}, expected {written}")
        print(f"{tag}: {len(found)} values")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
