"""``torchperf report``: who must know, and what do they need?"""
