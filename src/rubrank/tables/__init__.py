"""The parts of `rubrank.table`, each importing only those before it: names, readers, survey, graded, plan, writers."""
