"""UDPipe 1, trained and applied: run by udpipe.py with a Python that has `ufal.udpipe`, and needs nothing of ours.

usage: python udpipe_worker.py TRAIN DEV TEST DIRECTORY PARSER_OPTIONS

DIRECTORY gets {dev,test}.{gold,own}.conllu: parsed with the tags in the file, and with those of its own tagger.
"""

import importlib
import sys
from pathlib import Path

udpipe = importlib.import_module("ufal.udpipe")  # of the environment that runs this file: tritree does not need it


def read(path):
    reader, error, sentences = udpipe.InputFormat.newConlluInputFormat(), udpipe.ProcessingError(), udpipe.Sentences()
    reader.setText(Path(path).read_text("utf-8"))
    while reader.nextSentence(sentence := udpipe.Sentence(), error):
        sentences.append(sentence)
    if error.occurred():
        sys.exit(f"{path}: {error.message}")
    return sentences


def main(train, dev, test, directory, parser_options):
    error = udpipe.ProcessingError()
    model = udpipe.Trainer.train("morphodita_parsito", read(train), read(dev), "none", "", parser_options, error)
    if error.occurred():
        sys.exit(error.message)
    path = Path(directory, "model.udpipe")
    path.write_bytes(model)
    model = udpipe.Model.load(str(path))
    for split, file in (("dev", dev), ("test", test)):
        for tags, tagger in (("gold", udpipe.Pipeline.NONE), ("own", udpipe.Pipeline.DEFAULT)):
            pipeline = udpipe.Pipeline(model, "conllu", tagger, udpipe.Pipeline.DEFAULT, "conllu")
            parsed = pipeline.process(Path(file).read_text("utf-8"), error)
            if error.occurred():
                sys.exit(f"{file}: {error.message}")
            Path(directory, f"{split}.{tags}.conllu").write_text(parsed, "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
