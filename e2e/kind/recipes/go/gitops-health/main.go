// Says what GitOps tools make of objects: `gitops-health SCRIPT < objects`, one object of JSON a line.
//
// Each line of the answer has what kstatus computes (Flux, `kustomize`, `kpt` wait by it) and what the health check
// SCRIPT returns in the interpreter Argo CD has, with the libraries Argo CD opens for checks of its users.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// Argo CD ends a health check after a second.
const limit = time.Second

type answer struct {
	Kstatus        string `json:"kstatus"`
	KstatusMessage string `json:"kstatusMessage"`
	Argo           string `json:"argo"`
	ArgoMessage    string `json:"argoMessage"`
}

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string, in io.Reader, out io.Writer) error {
	if len(arguments) != 1 {
		return errors.New("usage: gitops-health SCRIPT < objects")
	}
	script, err := os.ReadFile(arguments[0])
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 4<<20)
	writer := json.NewEncoder(out)
	for lines.Scan() {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(lines.Bytes()); err != nil {
			return err
		}
		computed, err := status.Compute(object)
		if err != nil {
			return err
		}
		health, message, err := check(string(script), object.Object)
		if err != nil {
			return err
		}
		if err := writer.Encode(answer{computed.Status.String(), computed.Message, health, message}); err != nil {
			return err
		}
	}
	return lines.Err()
}

func check(script string, object map[string]any) (string, string, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
	} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			return "", "", err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	state.SetContext(ctx)
	state.SetGlobal("obj", value(state, object))
	if err := state.DoString(script); err != nil {
		return "", "", err
	}
	found, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return "", "", fmt.Errorf("the script returned a %s, not a table", state.Get(-1).Type())
	}
	return text(found, "status"), text(found, "message"), nil
}

func text(table *lua.LTable, key string) string {
	found, _ := table.RawGetString(key).(lua.LString)
	return string(found)
}

func value(state *lua.LState, from any) lua.LValue {
	switch typed := from.(type) {
	case bool:
		return lua.LBool(typed)
	case string:
		return lua.LString(typed)
	case int64:
		return lua.LNumber(typed)
	case float64:
		return lua.LNumber(typed)
	case []any:
		table := state.NewTable()
		for _, each := range typed {
			table.Append(value(state, each))
		}
		return table
	case map[string]any:
		table := state.NewTable()
		for key, each := range typed {
			table.RawSetString(key, value(state, each))
		}
		return table
	}
	return lua.LNil
}
