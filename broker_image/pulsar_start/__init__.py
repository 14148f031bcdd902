"""The start program of the Pulsar images: lays configuration, then becomes Java.

One source for all three images (`pulsar-broker`, `pulsar-bookie`, `pulsar-proxy`), installed at
/opt/pulsar-operator/pulsar_start and started as `python3 /opt/pulsar-operator/pulsar_start <component>`.
Standard library only: the images carry python3 and nothing else of Python.
"""
