from rich.progress import Progress

from parsers.data.conllu import read
from parsers.evaluation.parse import Parse
from parsers.evaluation.screen import progress


def test_progress(place, monkeypatch, capfd):
    """What has been parsed counts, not what has been read ahead."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(Progress, "update", lambda self, task, **shown: updates.append(shown))
    path, updates = str(place / "gold.conllu"), []
    sentences = list(read(path))
    with progress(path) as watch:
        parses = [Parse(sentence, [], None, [], [], 0.0, 0.0) for sentence in 3 * sentences]
        for number, parse in enumerate(watch(parses)):
            assert parse is parses[number] and len(updates) == (number + 1) // 64
    size = sum(len(line.encode()) for parse in parses[:64] for line in parse.sentence.lines)
    assert updates == [{"completed": size, "text": "64 sentences"}]
    capfd.readouterr()
