"""The layout is what CONTRIBUTING says: one way through, one name for each module."""

from __future__ import annotations

import ast
from collections import Counter
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import neucmds.api

ROOT = Path(neucmds.__file__).parent
SOLVERS = {"solve", "full_spectrum", "krylov_spectrum"}


def imported_names(path):
    """Names that a module imports, with the module they come from."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def test_nothing_but_api_imports_a_solver():
    users = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        for module, name in imported_names(path)
        if module.startswith("neucmds._spectrum") and name in SOLVERS
        if not path.is_relative_to(ROOT / "_spectrum")
    }
    assert users == {"api/eigenpairs.py"}


def test_only_public_modules_have_all():
    """What the command, the paper's tables and private packages define is for the package."""
    inside = [ROOT / name for name in ("cli", "paper", "plots")]
    wrong = [
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if "\n__all__ =" in path.read_text(encoding="utf-8")
        if any(
            part.startswith("_") and part != "__init__.py" for part in path.relative_to(ROOT).parts
        )
        or (path.parent in inside and path.name != "__init__.py")
    ]
    assert wrong == []


def test_few_modules_lie_on_the_top_level():
    assert len(list(ROOT.glob("*.py"))) <= 14


def test_no_two_modules_have_the_same_name():
    names = [path.stem for path in ROOT.rglob("*.py") if not path.stem.startswith("__")]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def public_modules():
    """Return modules on the top level and in `api`, each with its public names."""
    for path in ROOT.glob("[!_]*.py"):
        yield path, set(getattr(import_module(f"neucmds.{path.stem}"), "__all__", ()))
    for path in (ROOT / "api").glob("[!_]*.py"):
        yield path, set(neucmds.api.__all__)


def test_every_public_function_documents_parameters_and_has_an_example():
    lacking, seen = [], set()
    for path, public in public_modules():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name in public:
                seen.add(node.name)
                text = ast.get_docstring(node) or ""
                wanted = ("Examples\n---", *(["Parameters\n---"] if node.args.args else []))
                if any(part not in text for part in wanted):
                    lacking.append(f"{path.name}:{node.name}")
    assert lacking == []
    assert {"neuc_mds", "compare", "curve", "inspect", "evaluate", "prepare"} <= seen


# Modules that are parts of one thing are tested as that thing, in these files; every other module
# has a file of its own name in the folder of its package.
TESTED_IN = {
    "_input/readers/test_table_files.py": ("_input/readers/phylip.py", "_input/readers/text.py"),
    "_input/test_dissimilarity.py": ("_input/containers.py", "_input/tiles.py"),
    "_input/test_validation.py": ("_input/chunks.py",),
    "_methods/refined/test_completion.py": ("_methods/refined/weighted.py",),
    "_methods/refined/test_losses.py": (
        "_methods/refined/pair_descent.py",
        "_methods/refined/pair_tiles.py",
    ),
    "_methods/refined/test_objective.py": ("_methods/refined/descent.py",),
    "_methods/refined/test_signatures.py": ("_methods/refined/starts.py",),
    "_methods/refined/test_sparse_pairs.py": (
        "_methods/refined/compiled_pairs.py",
        "_methods/refined/hub_pairs.py",
        "_methods/refined/listed_pairs.py",
    ),
    "_operator/test_blocked.py": (
        "_operator/first_pass.py",
        "_operator/row_sources.py",
        "operators.py",
    ),
    "_operator/test_features.py": ("_operator/choose.py",),
    "_operator/test_sampled_pairs.py": ("_operator/neighbor_search.py",),
    "_spectrum/test_solve.py": ("api/eigenpairs.py",),
    "api/test_entry.py": ("api/arguments.py",),
    "api/test_goals.py": ("_input/components.py",),
    "cli/test_bad_inputs.py": ("cli/app.py", "cli/inputs.py"),
    "cli/test_commands.py": (
        "_input/readers/new_objects.py",
        "cli/compare.py",
        "cli/curve.py",
        "cli/demo.py",
        "cli/embed.py",
        "cli/facts.py",
        "cli/inspect.py",
        "cli/project.py",
    ),
    "cli/test_embed_options.py": (
        "cli/annotations.py",
        "cli/landmark_fit.py",
        "cli/options.py",
        "cli/results.py",
    ),
    "cli/test_outputs.py": ("cli/console.py", "cli/tables.py"),
    "cli/test_processes.py": ("__main__.py", "cli/__main__.py"),
    "cli/test_report_command.py": ("cli/report.py",),
    "datasets/test_loaders.py": (
        "datasets/_home.py",
        "datasets/dissimilarities.py",
        "datasets/genomics.py",
        "datasets/images.py",
    ),
    "estimators/test_all_pairs.py": ("estimators/signed_transformer.py",),
    "estimators/test_among_landmarks.py": ("_placement/landmark_selection.py",),
    "estimators/test_geodesics.py": ("_operator/neighbor_graph.py",),
    "paper/test_experiments.py": (
        "paper/bench.py",
        "paper/cells.py",
        "paper/drawing.py",
        "paper/fig_dim_paradox.py",
        "paper/fig_eigen_dist.py",
        "paper/landmarks.py",
        "paper/sources.py",
        "paper/tab_dataset.py",
        "paper/tab_distortion_all.py",
        "paper/tab_evaluation_1.py",
        "paper/tab_evaluation_2.py",
        "paper/tab_image_other_metric.py",
        "paper/tab_random_matrix_errors.py",
        "paper/tab_stand_ins.py",
        "paper/tab_stress_all.py",
    ),
    "paper/test_parts.py": (
        "_methods/peer_smacof.py",
        "paper/counting.py",
        "paper/curves.py",
        "paper/paradox.py",
        "paper/smacof.py",
    ),
    "paper/test_records.py": ("paper/document.py", "paper/writing.py"),
    "paper/test_registry.py": ("paper/errata.py", "paper/runner.py"),
    "report/test_page.py": ("report/findings.py", "report/payload.py", "report/words.py"),
    "test_devices.py": (
        "_backend/cuda_kernels.py",
        "_backend/triton_products.py",
        "_methods/refined/device_pairs.py",
    ),
    "test_embedding.py": (
        "embedding/building.py",
        "embedding/inner_product.py",
        "embedding/result.py",
        "embedding/saved.py",
    ),
    "test_losses.py": ("api/fitting.py",),
    "test_plots.py": (
        "plots/_figures.py",
        "plots/_names.py",
        "plots/coordinates.py",
        "plots/shepard.py",
        "plots/spectra.py",
    ),
    "test_scale.py": ("_input/weights.py",),
}


def test_every_module_has_its_test_file():
    tests = Path(__file__).parent
    together = {module: file for file, modules in TESTED_IN.items() for module in modules}
    modules = {path.relative_to(ROOT) for path in ROOT.rglob("*.py") if path.stem != "__init__"}
    own = {path: path.with_name(f"test_{path.stem.strip('_')}.py") for path in modules}
    lacking = [
        path.as_posix()
        for path in modules
        if not (tests / together.get(path.as_posix(), own[path])).exists()
    ]
    assert lacking == []
    assert set(together) <= {path.as_posix() for path in modules}


def test_public_names_are_listed_and_can_be_had():
    for name in neucmds.__all__:
        assert getattr(neucmds, name) is not None
        assert name in dir(neucmds)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = neucmds.nonsense


def test_benchmarks_import_what_there_is():
    """Two could not be run after modules had been renamed: nobody runs them all."""
    folder = Path(__file__).parents[1] / "benchmarks"
    if not folder.exists():
        pytest.skip("benchmarks are not part of this installation")
    missing = [
        f"{path.name}: {module}.{name}"
        for path in sorted(folder.rglob("*.py"))
        for module, name in imported_names(path)
        if name and module.startswith("neucmds")
        if not hasattr(import_module(module), name) and not find_spec(f"{module}.{name}")
    ]
    assert missing == []
