import io
from collections import Counter

from parsers.data import synthetic
from parsers.data.conllu import parse
from tritree.projective import is_projective


def test_it_is_seeded():
    once, again, other = ("".join(synthetic.conllu("dev", seed, 20)) for seed in (0, 0, 1))
    assert once == again != other


def test_parts_are_different_sentences_of_one_language():
    train, test = ({" ".join(s.forms) for s in synthetic.sentences(split)} for split in ("train", "test"))
    assert len(train & test) < 0.05 * len(test)
    known = {word for sentence in train for word in sentence.split()}
    unknown = [word not in known for sentence in test for word in sentence.split()]
    assert 0.02 < sum(unknown) / len(unknown) < 0.2


def test_trees_are_projective_with_one_root():
    for sentence in synthetic.sentences("train"):
        assert is_projective(sentence.heads) and sentence.heads.count(0) == 1


def test_unlabelled_sentences_have_no_trees():
    assert all(set(s.heads) == {-1} for s in synthetic.sentences("unlabeled", count=50))


def test_frequencies_follow_zipf():
    counts = Counter(
        w for s in synthetic.sentences("train") for w, p in zip(s.forms, s.upos, strict=True) if p == "NOUN"
    )
    ranked = [count for _, count in counts.most_common()]
    assert ranked[0] > 3 * ranked[20] > 0 and ranked.count(1) > 0.3 * len(ranked)


def test_tags_do_not_say_where_phrases_attach():
    """A preposition's noun hangs from verbs and from nouns, and which one depends on the words."""
    heads = Counter()
    for sentence in synthetic.sentences("train"):
        for tag, head in zip(sentence.upos, sentence.heads, strict=True):
            if tag == "ADP":
                above = sentence.heads[head - 1]
                heads[sentence.upos[above - 1]] += 1
    assert min(heads["NOUN"], heads["VERB"]) > 0.2 * sum(heads.values())


def test_files(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["synthetic", str(tmp_path / "bank")])
    synthetic.main()
    text = (tmp_path / "bank" / "synthetic-ud-train.conllu").read_bytes()
    assert len(list(parse(io.BytesIO(text), "f"))) == synthetic.SIZES["train"]
