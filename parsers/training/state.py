"""How far a training has come."""

from dataclasses import dataclass, field


@dataclass
class State:
    """All of it goes into a checkpoint, as JSON."""

    stage: int = 1
    epoch: int = 1
    step: int = 0  # steps done in this epoch
    phase: str = "steps"  # or "dev", when only the dev set is left of this epoch
    totals: dict[str, float] = field(default_factory=dict)  # sums over the steps of this epoch
    record: dict = field(default_factory=dict)  # figures of this epoch
    history: list[dict] = field(default_factory=list)  # figures of the epochs before
    best_uas: float = -1.0  # on the dev set; the LAS with --stop-on las
    best_epoch: int = 0  # counted over all stages; 0: none yet
    goal: float = -1.0  # the dev score to beat: the best one since training started from new weights
    waiting: int = 0  # epochs since then without a better one
    averaged: int = 0  # steps in the average of the weights (--ema)
    continued: int = 0  # how often it went on after it was finished
    seconds: float = 0.0
    finished: bool = False

    def check(self, stages: range, epochs: int) -> None:
        """A ValueError unless a training of these stages and so many epochs can be in this state: the file is not
        trusted."""
        for name, usual in vars(State()).items():
            kinds = (int, float) if isinstance(usual, float) else (type(usual),)
            if type(getattr(self, name)) not in kinds:
                raise ValueError(f"wrong type of {name}")
        records = [self.totals, self.record, *self.history]
        if not all(type(value) in (int, float, bool) for record in records for value in record.values()):
            raise ValueError("figures that are not numbers")
        counts = (self.step, self.waiting, self.averaged)
        if self.stage not in stages or not 1 <= self.epoch <= epochs + 1 or min(counts) < 0:
            raise ValueError("stage, epoch or step out of range")
        if self.phase == "dev" and not {"stage", "epoch", "sentences_per_second"} <= self.record.keys():
            raise ValueError("an epoch without figures")
        for kind in ("", "unlabeled_"):
            if f"{kind}loss" in self.totals and f"{kind}words" not in self.totals:
                raise ValueError("sums without the number of words")
