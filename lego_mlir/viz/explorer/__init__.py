"""The explorer: one page on which a layout is edited, drawn, accessed and repaired.

`answers` computes what the page shows from a layout's text, `worker` does it in a process that can be stopped,
`server` gives it to a browser on this machine, `page` joins HTML, style and script into one file, which also works
without a server, with the answers for given layouts inside.
"""
