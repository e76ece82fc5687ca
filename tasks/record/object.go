package record

import "iter"

// Object is a JSON object whose members keep their order and, until they are
// set, their exact bytes.
type Object struct {
	members []member
}

type member struct {
	key   []byte // as written, with its quotes
	name  string
	value any // Raw, or what Set was given
}

// NewObject returns an object without members.
func NewObject() *Object { return &Object{} }

// ParseObject reads a JSON text that must be one object.
func ParseObject(data []byte) (*Object, error) {
	raw, err := parseValue(data)
	if err != nil {
		return nil, err
	}
	return parseObject(raw)
}

func parseObject(raw Raw) (*Object, error) {
	s := scanner{data: raw}
	if s.peek() != '{' {
		return nil, s.fail("an object should be here")
	}
	o := &Object{}
	err := s.object(0, func(key []byte, name string, value Raw) {
		o.members = append(o.members, member{key, name, value})
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

func (o *Object) find(name string) int {
	for i := range o.members {
		if o.members[i].name == name {
			return i
		}
	}
	return -1
}

// Get returns a member's value.
func (o *Object) Get(name string) (Raw, bool) {
	i := o.find(name)
	if i < 0 {
		return nil, false
	}
	if raw, ok := o.members[i].value.(Raw); ok {
		return raw, true
	}
	return Encode(o.members[i].value), true
}

// Value returns a member's value; nil, which IsNull, when there is none.
func (o *Object) Value(name string) Raw {
	raw, _ := o.Get(name)
	return raw
}

// Text returns the string that a member holds; "" when it holds none.
func (o *Object) Text(name string) string {
	s, _ := o.Value(name).Text()
	return s
}

// Set gives a member a value, at its place when it exists, else at the end.
// The value is what Encode accepts.
func (o *Object) Set(name string, value any) {
	if i := o.find(name); i >= 0 {
		o.members[i].value = value
		return
	}
	o.members = append(o.members, member{appendText(nil, name), name, value})
}

// Delete removes a member.
func (o *Object) Delete(name string) {
	if i := o.find(name); i >= 0 {
		o.members = append(o.members[:i], o.members[i+1:]...)
	}
}

// all yields the members: a record of a stranger may have very many.
func (o *Object) all() iter.Seq2[string, Raw] {
	return func(yield func(string, Raw) bool) {
		for i := range o.members {
			value, ok := o.members[i].value.(Raw)
			if !ok {
				value = Encode(o.members[i].value)
			}
			if !yield(o.members[i].name, value) {
				return
			}
		}
	}
}

// Names returns the names of the members, in order.
func (o *Object) Names() []string {
	names := make([]string, len(o.members))
	for i := range o.members {
		names[i] = o.members[i].name
	}
	return names
}

// Bytes returns the object as the text of a file: indented by two, with no
// newline at the end, as upstream writes it.
func (o *Object) Bytes() []byte { return appendObject(nil, o, 0) }
