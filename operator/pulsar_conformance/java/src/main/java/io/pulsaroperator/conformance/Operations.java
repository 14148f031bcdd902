package io.pulsaroperator.conformance;

import java.util.Map;

/** A group of operations by their protocol names. */
interface Operations {
    Map<String, Operation> byName();
}
