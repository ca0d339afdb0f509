//! x
#![allow(clippy::print_stdout)]
fn main(){ for s in fidelity_demo_trainer::grammar::Stories::new(5).take(40) { println!("[{}] {}\n", s.plot, s.text);} 
 let w: std::collections::BTreeMap<String,usize> = fidelity_demo_trainer::grammar::Stories::new(5).take(5000).flat_map(|s| s.text.split(' ').map(|w| w.trim_matches(|c: char| !c.is_alphabetic()).to_lowercase()).collect::<Vec<_>>()).fold(Default::default(), |mut m,w| {*m.entry(w).or_default()+=1; m});
 println!("{}", w.len());
 let n: Vec<usize> = fidelity_demo_trainer::grammar::Stories::new(5).take(2000).map(|s| s.text.split(' ').count()).collect();
 println!("{} {} {}", n.iter().min().unwrap(), n.iter().max().unwrap(), n.iter().sum::<usize>()/n.len());
}
