package tasks

import (
	"regexp"
	"strings"
)

// mutated applies the mutations to a prompt, in order.
func (l *Loader) mutated(prompt string, list []PromptMutation) (string, error) {
	for _, m := range list {
		var err error
		if prompt, err = l.mutate(prompt, m); err != nil {
			return "", err
		}
		if len(prompt) > maxYAMLBytes {
			return "", errText("the mutations make a prompt of more than 4 MiB")
		}
	}
	return prompt, nil
}

var templateName = regexp.MustCompile(`\{[^{}]*\}`)

func (l *Loader) mutate(prompt string, m PromptMutation) (string, error) {
	switch m.Type {
	case "prefix":
		return m.Content + m.Separator + prompt, nil
	case "suffix":
		return prompt + m.Separator + m.Content, nil
	case "template":
		return templateName.ReplaceAllStringFunc(prompt, func(name string) string {
			if value, ok := m.Variables[name[1:len(name)-1]]; ok {
				return value
			}
			return name
		}), nil
	}
	if !m.Regex {
		return strings.ReplaceAll(prompt, m.Pattern, m.Replacement), nil
	}
	if l.Sub == nil {
		return "", errText("a replace mutation with regex: true needs Python's regular expressions, which this Loader was not given")
	}
	return l.Sub(m.Pattern, m.Replacement, prompt)
}
