"""Wrong input and the message that it gives. ``python -m tests.cli.bad_input_table`` prints it for the docs."""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scdh.experiments.pages.markdown import markdown_table
from tests.cli.bad_files import QUICK, SMALL, prepare
from tests.cli.commands import run


@dataclass(frozen=True)
class Case:
    """The message of ``command`` must contain ``expected``."""

    title: str
    command: str
    expected: tuple[str, ...]

    def command_in(self, folder: Path) -> str:
        """The command for the folder that ``prepare`` filled."""
        return self.command.format(d=folder, small=SMALL, quick=QUICK)


TABLE = r"""
info of nothing | info {d}/nowhere | nowhere · is not a run, a model, codes, an index
check of nothing | check {d}/nowhere | nowhere · nothing at
check of data | check {d}/corrupt | corrupt · is not a run · scdh datasets
report of a folder that is not a run | report {d} | is not a run folder
pictures for no page | search {d}/some.index --row 0 --data digits | --data · --html
info of cut codes | info {d}/short.codes | short.codes · cut short
info of broken data | info {d}/nan.npz | nan.npz · row 3
report of a model without its run | report {d}/lone_model | lone_model · the folder of its run
report of a file that is not a run | report {d}/16.codes | 16.codes · is a file · a run is a folder · scdh info
evaluation of a file of codes | evaluate {d}/16.codes | 16.codes · is a file · a run is a folder
report of nothing | report {d}/nowhere | no run folder · nowhere
report into a folder | report {d}/run --out {d}/corrupt | corrupt is a folder · --out
report of a run in its trials | report {d}/stopped_run | stopped_run · --resume
report of changed data | report {d}/changed_run | changed.npz · rows and labels that the run · --data
hits into a folder | search {d}/16.index --row 0 --html {d}/corrupt | corrupt is a folder · --html
hits below a file | search {d}/16.index --row 0 --html {d}/nan.npz/x.html | nan.npz · not a directory
pictures of other data | search {d}/labelled16.index --row 0 --html {d}/x.html --data {d}/few.npz |
    few.npz · does not hold the items
pictures that are not there | search {d}/16.index --row 0 --html {d}/x.html --data {d}/no | no file · no
unknown preset | train --preset cifar --out {d}/x | preset · cifar · did you mean 'cifar10'
unknown method | train --preset demo-digits --method scdhh --out {d}/x | method · did you mean 'scdh'
unknown backbone | train --data digits-images --set net.backbone=resnet51 --out {d}/x |
    backbone · resnet51 · did you mean
image backbone for embeddings | train --data digits --set net.backbone=resnet50 --out {d}/x |
    embeddings · 'features' · resnet50
unknown setting | train --preset demo-digits --set train.epoch=3 --out {d}/x |
    train.epoch · did you mean 'train.epochs'
unknown setting of the method | train --preset demo-digits --set method.lamda=3 --out {d}/x |
    scdh setting · 'lamda' · did you mean 'lam'
unknown data set | train --data cifar11 --out {d}/x | cifar11 · cifar10
setting without a value | train --preset demo-digits --set train.epochs --out {d}/x | train.epochs
setting given twice | train --preset demo-digits --set train.epochs=1 --set train.epochs=2 | given twice
option and --set at once | train --preset demo-digits --bits 8 --set method.bits=9 | given twice
configuration that is not TOML | train --config {d}/broken.toml --out {d}/x | broken.toml · TOML
nothing to train on | train | --data · --preset
bits = 0 | train --preset demo-digits --bits 0 --out {d}/x | --bits · from 1 · not 0
empty class folder | train --data {d}/empty_class {small} --out {d}/x | pears · no images
label out of range | train --data {d}/label_7.npz {quick} --out {d}/x | label 7 · row 5 · expected 0 to 1
NaN embedding | train --data {d}/nan.npz {quick} --out {d}/x | nan.npz · NaN · row 3
embeddings of two lengths | train --data {d}/ragged.parquet --method itq --out {d}/x | 4 numbers · row 7
table without images and embeddings | train --data {d}/prices.csv --out {d}/x |
    prices.csv · --image-column · --vector-column
separator of labels that are not text | train --data {d}/ragged.parquet --label-separator , --out {d}/x |
    --label-separator · int64
id column that is not there | datasets {d}/ragged.parquet --id-column asin | asin · embedding · label
vector column that is not there | datasets {d}/ragged.parquet --vector-column vec | 'vec' · embedding
vectors that are single numbers | datasets {d}/ragged.parquet --vector-column label | lists · int64
vectors that are text | datasets {d}/prices.csv --vector-column shop | 'shop' · row 0 · 'a'
array that is not there | datasets {d}/few.npz --label-column kind | few.npz · no array 'kind' · --label-column · X, y
array named where parts have arrays | datasets {d}/parts.npz --id-column x_test | parts.npz · --id-column · x_train
separator for folders of classes | datasets {d}/corrupt --label-separator , | --label-separator · corrupt
label column that is not there | datasets {d}/ragged.parquet --label-column tag | 'tag' · label
split column of an array file | train --data {d}/few.npz --set data.split_column=part --out {d}/x |
    few.npz · --set data.split_column · 'part'
split column of another name with an unknown word | train --data {d}/subset.csv {quick} --out {d}/x |
    subset.csv · holdout (2 rows) · --set data.validation=holdout
two columns that may be the split | datasets {d}/two_splits.parquet |
    two_splits.parquet · a and b · --set data.split_column
arrays of parts that do not fit | datasets {d}/parts.npz | x_train and x_test · differ in width
folder that leads back to itself | datasets {d}/loop | loop · no images
one number a column | datasets {d}/wide.csv | wide.csv · f0, f1, f2, f3 · --vector-column "f*"
columns that no name fits | datasets {d}/wide.csv --vector-column g* | 'g*' · f0, f1, f2, f3
columns that hold no numbers | datasets {d}/prices.csv --vector-column * | 'shop' · number in every row
part without a word | train --data {d}/split.npz --set data.query= --out {d}/x | data.query · one word
part that is two things |
    train --data {d}/split.npz --set data.validation=holdout --set data.query=holdout --out {d}/x |
    'holdout' · data.query · data.validation
labels that are not an array | train --data {d}/no_labels.npy --labels {d}/16.codes | 16.codes · plain .npy
more bits than numbers | train --data {d}/few.npz --method pca --out {d}/x | at most 4 bits · 32
too few rows in a class | train --data {d}/few.npz --set data.query_per_class=100 --out {d}/x | 100 · query
word of the split without a meaning | train --data {d}/split.npz {quick} --out {d}/x |
    holdout (2 rows) · train (8 rows) · --set data.validation=holdout
part that is not there | train --data {d}/split.npz {quick} --set data.query=hold --out {d}/x |
    no part 'hold' · data.query · holdout (2 rows)
one part for two things | train --data {d}/split.npz {quick} --set data.train=train,test --out {d}/x |
    'test' · data.train · data.query
every row is a query | train --data {d}/queries.npz {quick} --out {d}/x |
    queries.npz · no labelled rows left to train on · test (12 rows)
split of another length | train --data {d}/short_split.npz {quick} --out {d}/x | 12 rows · 9 split
parts named for data without a split | train --data {d}/few.npz {quick} --set data.validation=val --out {d}/x |
    few.npz · does not come divided
labels wanted and none there | train --data {d}/no_labels.npy {quick} --out {d}/x |
    no_labels.npy has no labels · --method itq · in Python method='itq' · --label-column
corrupt JPEG in training | train --data {d}/corrupt {small} --set data.split=all --out {d}/x |
    corrupt/pears/04.jpg · read · --on-bad-image skip
corrupt JPEG to encode | encode {d}/photo_run {d}/corrupt --out {d}/x.codes | corrupt/pears/04.jpg · read
images for a model of vectors | encode {d}/run digits-images --out {d}/x.codes | embeddings · images
embeddings of another width | encode {d}/run {d}/few.npz --out {d}/x.codes | width 64 · width 4
missing image file | encode {d}/photo_run nowhere.jpg --out {d}/x.codes | nowhere.jpg
missing data file | encode {d}/run {d}/nowhere.npz --out {d}/x.codes | nowhere.npz
missing model | encode {d}/nowhere digits --out {d}/x.codes | nowhere · model
not a model folder | encode {d}/corrupt digits --out {d}/x.codes | corrupt · model.safetensors
broken model weights | encode {d}/broken_model digits --out {d}/x.codes | broken_model · broken
part of no split | encode {d}/lone_model digits --part query --out {d}/x.codes | protocol.json
output below a file | encode {d}/run digits --out {d}/nan.npz/x.codes | nan.npz
run folder below a file | train --preset demo-digits --out {d}/nan.npz/x | nan.npz
output is a folder | index {d}/16.codes --out {d}/corrupt | corrupt · folder
missing codes | index {d}/nowhere.codes --out {d}/x.index | nowhere.codes
truncated codes | index {d}/short.codes --out {d}/x.index | short.codes · cut short · bytes
codes of two lengths | index {d}/16.codes {d}/32.codes --out {d}/x.index | 32 bits · 16 bits
ids that come twice | index {d}/16.codes {d}/16.codes --out {d}/x.index | id 0 · --renumber
append to a missing index | index {d}/16.codes --append --out {d}/nowhere.index | nowhere.index
append of another length | index {d}/32.codes --append --out {d}/16.index | 32 bits · 16 bits
an index that exists | index {d}/32.codes --out {d}/16.index | 16.index · --replace · --append
codes that exist | encode {d}/run digits --out {d}/16.codes | 16.codes · codes of 16 bits · --replace
nowhere to put codes | index {d}/16.codes | --out · --to
two places for codes | index {d}/16.codes --out {d}/x.index --to milvus:x.db/x | --out · --to
no codes to index | index --out {d}/x.index | at least one file
check and more | index {d}/16.codes --check {d}/16.index | --check
check of a truncated index | index --check {d}/short.index | short.index · cut short · bytes
append to Milvus | index {d}/16.codes --append --to milvus:{d}/x.db/x | --append · --to
Milvus without a collection | index {d}/16.codes --to milvus://host | milvus://host · collection
Milvus collection not there | search --index milvus:{d}/no.db/x --row 0 | no.db/x
label that nothing has | search {d}/labelled16.index --row 0 --label evn | evn · did you mean 'even'
label in other capitals, cut short | search {d}/labelled16.index --row 0 --label EV | EV · did you mean 'even'
label without labels | search {d}/16.index --row 0 --label pear | --label · 16.index
names that are not there | search {d}/16.index --row 0 --names {d}/x.codes | x.codes is missing
no index | search --row 0 | index · milvus://
truncated index | search {d}/short.index --row 0 | short.index · cut short · bytes
codes where an index is needed | search {d}/16.codes --row 0 | 16.codes · scdh-index · scdh-codes
query codes of another length | search {d}/16.index --codes {d}/32.codes | 32 bits · 16 bits
k = 0 | search {d}/16.index --row 0 -k 0 | k must · at least 1 · 0
radius below 0 | search {d}/16.index --row 0 --radius -1 | radius · -1
id that the index does not hold | search {d}/16.index --row 99 | id 99 · 0 to 9
name that no item has | search {d}/labelled16.index --row itm-3 | itm-3 · did you mean 'item 3'
name in an index without names | search {d}/16.index --row item-3 | item-3 · whole number
no query | search {d}/16.index | --model · --codes · --row
query model that did not make the index | search {d}/foreign.index --model {d}/photo_run {d}/corrupt/apples/00.jpg |
    different models
query and database of different lengths | evaluate --queries {d}/labelled16.codes --database {d}/labelled32.codes |
    16 bits · 32 bits
codes without labels | evaluate --queries {d}/16.codes --database {d}/16.codes | labels · 16.codes
missing run folder | evaluate {d}/nowhere | nowhere
not a run folder | evaluate {d}/corrupt | corrupt · config.json
data changed after training | evaluate {d}/changed_run | changed · --data
topk that is not a number | evaluate {d}/run --topk few | few · --topk
run folder already used | train --preset demo-digits --out {d}/run | run · --resume · delete this one
resume with other settings | train --resume --out {d}/run --bits 77 | method.bits · not 77
resume of trials with other settings | train --resume --out {d}/stopped_run --bits 9 | tried settings
refit of a run without it | train --resume --refit --out {d}/run | --refit · run · another --out
scores of a run in its trials | evaluate {d}/stopped_run | stopped_run · --resume
codes of a run in its trials | encode {d}/stopped_run digits --out {d}/x.codes | no model yet · --resume
resume of no folder | train --resume | --out · --resume
fewer epochs than before | train --resume --out {d}/photo_run --epochs 0 | train.epochs · 0
no validation rows to score | evaluate {d}/run --part validation | validation · data.validation_per_class
resume where no run is | train --resume --out {d}/corrupt | corrupt · config.json
unknown option | train --preset demo-digits --bit 4 | --bit
unknown command | tarin | tarin
missing argument | encode {d}/run --out {d}/x.codes | Give a model and data
unknown choice | evaluate {d}/run --ties random | --ties · expected
unknown method to describe | methods scdhx | scdhx · did you mean 'scdh'
data to describe do not exist | datasets {d}/nowhere | nowhere
"""
# A row that goes on in the next line; in a command stand the folder of ``prepare`` and options for quick runs.
ROWS = [row.split(" | ") for row in TABLE.strip().replace("\n    ", " ").splitlines()]
CASES = [Case(title, command, tuple(words.split(" · "))) for title, command, words in ROWS]


def print_table(show: Callable[[str], None] = print) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        d = Path(scratch)
        prepare(d)
        rows = []
        for case in CASES:
            command = case.command_in(d)
            message = run(command)[2].strip().splitlines()[-1]
            texts = (case.title, f"`scdh {command}`", message)
            rows.append([text.replace(f"{d}/", "").replace("|", "\\|") for text in texts])
        show(markdown_table(["input", "command", "message"], rows, left=range(3)))


if __name__ == "__main__":
    print_table()
    sys.exit(0)
