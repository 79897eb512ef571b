"""Trains three classifiers of scikit-learn's digits, and writes a model folder of MLServer for each.

Argument: the folder to write into. Half of the 1,797 images are for training. The others are `labels.jsonl`, lines
of {"request": BODY, "label": DIGIT}; `request.json` is the first of them. All of it is seeded.
"""

import json
import pathlib
import sys

import joblib
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

# Names, from the cheapest to the most accurate.
MODELS = {
    "small": make_pipeline(PCA(12, random_state=0), LogisticRegression(max_iter=2000)),
    "medium": RandomForestClassifier(110, random_state=0),
    "large": BaggingClassifier(SVC(), n_estimators=70, random_state=0),
}

folder = pathlib.Path(sys.argv[1])
images, digits = load_digits(return_X_y=True)
train_x, test_x, train_y, test_y = train_test_split(
    images, digits, test_size=0.5, random_state=0, stratify=digits
)


def request(image):
    values = [float(value) for value in image]
    tensor = {"name": "image", "shape": [1, len(values)], "datatype": "FP32", "data": values}
    return {"inputs": [tensor]}


with open(folder / "labels.jsonl", "w") as lines:
    for image, digit in zip(test_x, test_y):
        print(json.dumps({"request": request(image), "label": int(digit)}), file=lines)
(folder / "request.json").write_text(json.dumps(request(test_x[0])))
for name, model in MODELS.items():
    at = folder / name
    at.mkdir(exist_ok=True)
    joblib.dump(model.fit(train_x, train_y), at / "model.joblib")
    settings = {
        "name": "digits",
        "implementation": "mlserver_sklearn.SKLearnModel",
        "parameters": {"uri": "./model.joblib"},
    }
    (at / "model-settings.json").write_text(json.dumps(settings))
