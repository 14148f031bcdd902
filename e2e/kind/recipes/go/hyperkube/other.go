//go:build !linux

package main

import "errors"

func runKubeadm() error { return errors.New("kubeadm runs on Linux only") }
