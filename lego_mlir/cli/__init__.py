"""The command line: the only part of the project that prints.

Execution begins in `start`, which handles interruption; `main` holds the command registry; each command is one module
with HELP, EXAMPLE, `add_arguments` and `run`.

Sections:

- program: `start`, `main`, `configuration`, `options`, `completion`, `watching`, `several`
- kernels: `compile`, `run`, `check`, `explain`, `render`, `show`, `explore`, `analyze`, `pack`, `sanitize`, `new`
- parts of these: `mlir_files`, `structured`, `check_modules`, `check_formats`, `claim_groups`, `remarks`,
  `cache_analysis`, `analysis_page`, `convert`
- tuning: `tune`, `tune_plan`, `tune_jobs`, `tune_cluster`, `bench`
- the machine: `doctor`, `cache`
- input and output: `files`, `terminal`, `progress`, `json_output`, `code_hosts`
"""

INTERRUPTED = 130  # 128 + SIGINT, what a shell expects
