"""What records on a GPU for those who have none: ``python -m tools.record_gpu``.

``__main__`` is the command, ``recorder`` runs cases and keeps each on disk,
``experiments`` are the timed cases and ``observations`` all others.  ``cases`` is
what they share, ``programs`` and ``by_hand`` what is run.
"""
