"""`neol check`: options and what it prints."""

import argparse


def check_options(p):
    p.add_argument("env", metavar="ENV")


def check_command(a):
    return 0
