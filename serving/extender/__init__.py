"""The Kubernetes scheduler extender: HTTP, pods, nodes and drains around a predictor.

Standard library only besides the predictor. May import: everything else in `serving`.
"""
