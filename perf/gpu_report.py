"""`python -m perf.gpu_report` is `python -m perf.gpu.report`."""

from perf.gpu.report import main

if __name__ == "__main__":
    raise SystemExit(main())
