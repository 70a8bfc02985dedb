//! The curve of lookup cost against update cost along which merging moves a tree.
//!
//! After Dayan, Athanassoulis, Idreos, "Optimal Bloom Filters and Adaptive Merging for LSM-Trees"
//! (2018; Monkey), Figures 4, 8 and 13 (C, D): with memory as it is, every merge policy at size
//! ratios from 2, where all policies have the same runs, to data over buffer, where tiering is a
//! log and leveling a sorted array.

use crate::ModelError;
use crate::cost::{Costs, Design, Environment, Workload, costs};
use crate::curve::Curve;
use crate::search::spread;
use crate::tree::{self, MergePolicy};

/// A design on or above the curve.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Point {
    /// The design.
    pub design: Design,
    /// Its costs.
    pub costs: Costs,
    /// Whether no other point has a lower point lookup cost at no higher an update cost, or the
    /// other way round: it is on the Pareto curve.
    pub efficient: bool,
}

/// Size ratios for each policy.
const SIZE_RATIOS: u32 = 64;

/// What `design` costs with each of the policies and with size ratios over all their range (at most
/// 64 of them), in the order of the policies and of size ratios.
///
/// # Errors
/// A design, environment or workload outside its domain.
pub fn trade_off(
    design: &Design,
    policies: &[MergePolicy],
    environment: &Environment,
    workload: &Workload,
    curve: &Curve,
) -> Result<Vec<Point>, ModelError> {
    costs(design, environment, workload, curve)?;
    let most = tree::largest_size_ratio(environment.data_bytes(), design.buffer_bytes)?;
    let most = most.floor().clamp(2.0, f64::from(u32::MAX)) as u32;
    let mut points = Vec::new();
    for &policy in policies {
        for size_ratio in spread(2, most, SIZE_RATIOS) {
            let design = Design {
                policy,
                size_ratio,
                ..*design
            };
            points.push(Point {
                design,
                costs: costs(&design, environment, workload, curve)?,
                efficient: false,
            });
        }
    }
    mark_efficient(&mut points);
    Ok(points)
}

/// By rising update cost, and rising lookup cost among equals: a point is on the curve if its
/// lookups are cheaper than all before, or it equals one that is.
fn mark_efficient(points: &mut [Point]) {
    let mut order: Vec<usize> = (0..points.len()).collect();
    let key = |point: &Point| (point.costs.update, point.costs.point_lookup);
    order.sort_by(|&a, &b| {
        let (a, b) = (key(&points[a]), key(&points[b]));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let mut last: Option<(f64, f64)> = None;
    for at in order {
        let point = key(&points[at]);
        let efficient = last.is_none_or(|last| point.1 < last.1 || point == last);
        points[at].efficient = efficient;
        if efficient {
            last = Some(point);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{Allocation, Device};
    use MergePolicy::{Leveling, Tiering};

    fn environment() -> Environment {
        Environment {
            entries: 1e8,
            entry_bytes: 128.0,
            device: Device {
                page_bytes: 4096.0,
                read_seconds: 1e-4,
                write_cost: 1.0,
                merge_read_cost: 1.0,
            },
        }
    }

    fn points(allocation: Allocation, policies: &[MergePolicy]) -> Vec<Point> {
        let environment = environment();
        let workload = Workload {
            empty_lookups: 0.5,
            existing_lookups: 0.0,
            range_lookups: 0.0,
            updates: 0.5,
            selectivity: 0.0,
        };
        let design = Design {
            policy: Leveling,
            size_ratio: 2,
            buffer_bytes: 8e6,
            filter_bytes: 6.25e7,
            allocation,
        };
        trade_off(&design, policies, &environment, &workload, &Curve::ideal()).unwrap()
    }

    /// Figure 8: Monkey is below the state of the art at every policy and size ratio, and meets it
    /// where one level is left.
    #[test]
    fn monkey_is_below_uniform_everywhere() {
        let policies = MergePolicy::ALL;
        let monkey = points(Allocation::Monkey, &policies);
        let even = points(Allocation::Uniform, &policies);
        assert_eq!(monkey.len(), even.len());
        for (monkey, even) in monkey.iter().zip(&even) {
            assert_eq!(monkey.costs.update, even.costs.update);
            let ratio = even.costs.point_lookup / monkey.costs.point_lookup;
            if monkey.costs.levels == 1 {
                assert!((ratio - 1.0).abs() < 1e-9);
            } else {
                assert!(ratio > 1.05, "{ratio} at {:?}", monkey.design);
            }
        }
    }

    /// From a log to a sorted array, meeting at size ratio 2, where the paper's tree has one
    /// policy. The engine's has two, of which leveling writes less.
    #[test]
    fn the_curve_runs_from_a_log_to_a_sorted_array() {
        let points = points(Allocation::Monkey, &[Leveling, Tiering]);
        let of = |policy| points.iter().filter(move |p| p.design.policy == policy);
        let (leveled, tiered) = (of(Leveling).next(), of(Tiering).next());
        let (leveled, tiered) = (leveled.unwrap(), tiered.unwrap());
        assert_eq!(leveled.costs.empty_lookup, tiered.costs.empty_lookup);
        assert_eq!(leveled.costs.range_lookup, tiered.costs.range_lookup);
        let paper = |point: &Point| {
            let tree = point.design.tree(&environment()).unwrap();
            crate::merging::eq_10(&tree)
        };
        assert_eq!(paper(leveled), paper(tiered));
        assert!(leveled.costs.update < tiered.costs.update);
        let by_lookup =
            |a: &&Point, b: &&Point| a.costs.point_lookup.total_cmp(&b.costs.point_lookup);
        let array = points.iter().min_by(by_lookup).unwrap();
        assert_eq!((array.design.policy, array.costs.levels), (Leveling, 1));
        let log = points.iter().max_by(by_lookup).unwrap();
        assert_eq!((log.design.policy, log.costs.levels), (Tiering, 1));
    }

    /// What is marked efficient is what no other point beats.
    #[test]
    fn efficient_points_are_those_none_beats() {
        let points = points(Allocation::Monkey, &MergePolicy::ALL);
        let marked = points.iter().filter(|point| point.efficient).count();
        assert!((10..points.len()).contains(&marked), "{marked}");
        for point in &points {
            let beaten = points.iter().any(|other| {
                let (a, b) = (other.costs, point.costs);
                a.point_lookup <= b.point_lookup
                    && a.update <= b.update
                    && (a.point_lookup < b.point_lookup || a.update < b.update)
            });
            assert_eq!(point.efficient, !beaten, "{point:?}");
        }
    }
}
