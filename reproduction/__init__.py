"""The paper, reproduced: one module per table or figure, the published number beside ours.

`python -m reproduction TABLE…` runs it; `python -m reproduction --list` lists the names.
"""
