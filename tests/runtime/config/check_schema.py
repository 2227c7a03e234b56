"""Checks models/ against the schema, and that the schema refuses the mistakes it can see in bad_jobs.txt.

usage: check_schema.py MODELS_FOLDER SCHEMA
"""
import json
import pathlib
import re
import sys

import jsonschema

# Mistakes about how things fit together, which a schema cannot express, or about the text itself.
BEYOND_A_SCHEMA = re.compile(
    r"^(GpusThatAreNotTheMesh|OneGpuForTwoRanks|DeviceThatIsNone|"
    r"Syntax.*|DuplicateKey|MissingModelFile|UnknownInput.*|DuplicateId|ReservedId|Cycle|ReadsItself|NobodyReads|"
    r"TooManyInputs|UnknownBlock|NoBlocks|UnknownBlockParameter|MissingBlockParameter|UnknownParameter|BadExpression|"
    r"DivisionByZero|ExpressionOfWrongKind|BlockInItself|TooManyRepeats|BlockInputOutside|MeanOfWrongLength|"
    r"ClassWeightsOfWrongLength|TooManySyntheticClasses|AccumulateDoesNotDivide|BnGroupDoesNotDivide|"
    r"NesterovWithoutMomentum|StepScheduleWithoutSteps|TwoWarmups|TwoCheckpointRules|BadMemoryLimit|BadShardBytes|"
    r"RecomputesAStageThatIsNotThere|RecomputesHalfAStage|AStageOfAPartOfALayer|BucketOfNoSize|TwoWaysToCut|ShardsWithoutAllReduce|"
    r"RanksThatAreNotTheMesh|TooManyLayers|TooManyValues.*|HugeKernel|"
    r"SyntheticWithoutClasses|Servers[A-Z].*|RowsAugmentedOnADevice|MeanBeyondFloat|NumbersAugmentedOnADevice|MoreAugmentationsThanADeviceApplies)$")


def load(text):
    return json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))


def bad_jobs(path):
    for row in path.read_text().split("\n== ")[1:]:
        name, rest = row.split("\n", 1)
        yield name, rest.split("\n--\n")[0]


def main():
    models = pathlib.Path(sys.argv[1])
    schema = json.loads(pathlib.Path(sys.argv[2]).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    job = jsonschema.Draft202012Validator(schema)
    model = jsonschema.Draft202012Validator({"$ref": "#/$defs/model", "$defs": schema["$defs"]})
    failures = 0
    for validator, paths in ((job, models.glob("*.json")), (model, models.glob("nets/*.json"))):
        for path in sorted(paths):
            if path.name == "schema.json":
                continue
            for error in validator.iter_errors(load(path.read_text())):
                print(f"{path}: {error.json_path}: {error.message[:200]}")
                failures += 1
    refused = 0
    for name, text in bad_jobs(pathlib.Path(__file__).parent / "bad_jobs.txt"):
        if BEYOND_A_SCHEMA.match(name):
            continue
        if job.is_valid(load(text)):
            print(f"the schema accepts the bad job {name}")
            failures += 1
        refused += 1
    print(f"{refused} bad jobs refused by the schema")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
