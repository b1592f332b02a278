"""The parts of `rubrank.table`, each importing only those before it: names, readers, survey, plan, writers."""
