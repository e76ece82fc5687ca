#!/bin/sh
echo it runs
